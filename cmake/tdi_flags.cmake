# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#
# Compiler settings shared by every target, and the include folders of its rooms.

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_CXX_VISIBILITY_PRESET hidden)
set(CMAKE_VISIBILITY_INLINES_HIDDEN ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)

if(NOT DEFINED CMAKE_CXX_COMPILER_LAUNCHER)
  find_program(TDI_CCACHE ccache)
  if(TDI_CCACHE)
    set(CMAKE_CXX_COMPILER_LAUNCHER "${TDI_CCACHE}")
  endif()
endif()

add_compile_options($<$<COMPILE_LANGUAGE:CXX>:-Wall> $<$<COMPILE_LANGUAGE:CXX>:-Wextra>)
if(TDI_WERROR)
  add_compile_options($<$<COMPILE_LANGUAGE:CXX>:-Werror>)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    # gcc 12 reports them for concatenations of std::string, wrongly (GCC bugs 105329, 105651).
    add_compile_options($<$<COMPILE_LANGUAGE:CXX>:-Wno-error=array-bounds>
                        $<$<COMPILE_LANGUAGE:CXX>:-Wno-error=restrict>)
  endif()
endif()

if(TDI_SANITIZE)
  add_compile_options(-fsanitize=${TDI_SANITIZE} -fno-omit-frame-pointer -O1 -g -UNDEBUG)
  add_link_options(-fsanitize=${TDI_SANITIZE})
endif()

# torch's libraries bring libstdc++.so.6 into every process. A second copy of it inside of ours would share some of its
# data and not others, so that the first stream crashes: compilers that link libstdc++ statically are given the shared
# one before theirs.
try_compile(TDI_LINKS "${CMAKE_CURRENT_BINARY_DIR}/libstdcxx" "${CMAKE_CURRENT_LIST_DIR}/libstdcxx.cpp"
  COPY_FILE "${CMAKE_CURRENT_BINARY_DIR}/libstdcxx_check")
if(TDI_LINKS)
  file(STRINGS "${CMAKE_CURRENT_BINARY_DIR}/libstdcxx_check" shared_libstdcxx REGEX "libstdc\\+\\+\\.so\\.6")
  if(NOT shared_libstdcxx)
    message(STATUS "torch_distinput: the compiler links libstdc++ statically; libstdc++.so.6 is linked before it")
    add_link_options("LINKER:--push-state,--no-as-needed,-l:libstdc++.so.6,--pop-state")
  endif()
endif()

# Rooms include each other as "room/file.h" and the front door as "torch_distinput/file.h".
function(tdi_add_include_folders target)
  target_include_directories(${target}
    PRIVATE "${PROJECT_SOURCE_DIR}/csrc" PUBLIC "${PROJECT_SOURCE_DIR}/csrc/include")
endfunction()

# Headers that nearly every file of a target includes anyway. Files still name what they use: what a build
# without TDI_PCH would miss, it reports.
function(tdi_precompile target)
  if(TDI_PCH)
    target_precompile_headers(${target} PRIVATE ${ARGN})
  endif()
endfunction()

# Compiles the files of a folder as one: nearly all of their cost is torch's headers. Names in unnamed namespaces
# must therefore differ within a folder.
function(tdi_unite_rooms target)
  if(NOT TDI_UNITY)
    return()
  endif()
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_MODE GROUP)
  foreach(source IN LISTS ARGN)
    get_filename_component(room "${source}" DIRECTORY)
    string(REGEX REPLACE ".*/(csrc|tests/cpp)/" "" room "${room}")
    string(REPLACE "/" "_" room "${room}")
    set_source_files_properties("${source}" PROPERTIES UNITY_GROUP "${room}")
  endforeach()
endfunction()

# Compiles the files that need torch's largest headers as one, whatever their rooms: each of these headers takes longer
# to read than a room, and they include each other.
function(tdi_unite_large_headers)
  foreach(source IN LISTS ARGN)
    file(STRINGS "${source}" large REGEX "#include <torch/(library|serialize|csrc/(autograd|distributed|jit))")
    if(large)
      set_source_files_properties("${source}" PROPERTIES UNITY_GROUP large_headers)
    endif()
  endforeach()
endfunction()

# Exports only the symbols that the version script `map` lets through. Hidden visibility alone leaves in what torch and
# the standard library declare visible.
function(tdi_export_only target map)
  target_link_options(${target} PRIVATE "LINKER:--version-script=${map}")
  set_property(TARGET ${target} APPEND PROPERTY LINK_DEPENDS "${map}")
endfunction()
