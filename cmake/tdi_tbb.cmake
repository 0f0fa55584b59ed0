# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#
# oneTBB as TBB::tbb, and its TDI_TBB_INTERFACE_VERSION. Search order: TBB_DIR, the tbb-devel wheel
# and the prefix of the Python in use, the system.

set(_tdi_tbb_hints)
if(NOT Python_EXECUTABLE)
  find_package(Python 3.10 QUIET COMPONENTS Interpreter)
endif()
if(Python_EXECUTABLE)
  execute_process(
    COMMAND "${Python_EXECUTABLE}" -c [=[
import importlib.metadata as metadata, sys
try:
    files = metadata.files("tbb-devel") or ()
except metadata.PackageNotFoundError:
    files = ()
found = [str(f.locate().resolve().parent) for f in files if f.name == "TBBConfig.cmake"]
print(";".join([*found, sys.prefix]))]=]
    OUTPUT_VARIABLE _tdi_tbb_hints OUTPUT_STRIP_TRAILING_WHITESPACE)
endif()
find_package(TBB CONFIG QUIET HINTS ${_tdi_tbb_hints})
if(NOT TBB_FOUND)
  message(FATAL_ERROR "torch_distinput: oneTBB was not found. Install it with `pip install tbb-devel` into "
    "the Python in use (${Python_EXECUTABLE}), with your system's package manager (libtbb-dev), or "
    "name the folder of TBBConfig.cmake with -DTBB_DIR=....")
endif()

get_target_property(_tdi_tbb_include TBB::tbb INTERFACE_INCLUDE_DIRECTORIES)
file(STRINGS "${_tdi_tbb_include}/oneapi/tbb/version.h" _tdi_tbb_line
  REGEX "define TBB_INTERFACE_VERSION [0-9]+")
string(REGEX MATCH "[0-9]+" TDI_TBB_INTERFACE_VERSION "${_tdi_tbb_line}")
message(STATUS "oneTBB ${TBB_VERSION} (interface ${TDI_TBB_INTERFACE_VERSION}): ${TBB_DIR}")
