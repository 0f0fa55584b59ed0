# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#
# The libraries that decode images, each of which may be missing: the library then builds, and says what to install
# when images are to be decoded. They are looked for in each run of CMake until they are found.

set(TDI_IMAGE_LIBRARIES)
# TDI_HAS_<name> is defined for csrc/kernels/images/<source> where header and library (ARGN: its names) are there.
function(tdi_find_decoder name source header package)
  find_path(TDI_${name}_INCLUDE ${header})
  find_library(TDI_${name} NAMES ${ARGN})
  mark_as_advanced(TDI_${name}_INCLUDE TDI_${name})
  set(found FALSE)
  if(TDI_${name}_INCLUDE AND TDI_${name})
    set(found TRUE)
  endif()
  if(found AND name STREQUAL "JPEG")
    # Only libjpeg-turbo decodes parts of images.
    file(STRINGS "${TDI_JPEG_INCLUDE}/jpeglib.h" parts REGEX "jpeg_crop_scanline")
    if(NOT parts)
      set(found FALSE)
    endif()
  endif()
  if(NOT found)
    message(STATUS "torch_distinput: ${header} was not found; images cannot be decoded without ${package}")
    return()
  endif()
  set_source_files_properties("${PROJECT_SOURCE_DIR}/csrc/kernels/images/${source}" PROPERTIES
    COMPILE_DEFINITIONS TDI_HAS_${name} INCLUDE_DIRECTORIES "${TDI_${name}_INCLUDE}")
  set(TDI_IMAGE_LIBRARIES ${TDI_IMAGE_LIBRARIES} "${TDI_${name}}" PARENT_SCOPE)
endfunction()

# They know no torch, and libraries in C that define many macros.
foreach(source jpeg png webp)
  set_source_files_properties("${PROJECT_SOURCE_DIR}/csrc/kernels/images/${source}.cpp" PROPERTIES
    SKIP_UNITY_BUILD_INCLUSION ON SKIP_PRECOMPILE_HEADERS ON)
endforeach()
# Its loops over arrays of vectors must be unrolled, so that the arrays become registers.
set_source_files_properties("${PROJECT_SOURCE_DIR}/csrc/kernels/images/resample_blocks.cpp" PROPERTIES
  SKIP_UNITY_BUILD_INCLUSION ON SKIP_PRECOMPILE_HEADERS ON COMPILE_OPTIONS "$<$<CONFIG:Release>:-O3>")
tdi_find_decoder(JPEG jpeg.cpp jpeglib.h libturbojpeg0-dev jpeg)
tdi_find_decoder(PNG png.cpp png.h libpng-dev png)
tdi_find_decoder(WEBP webp.cpp webp/decode.h libwebp-dev webp)
target_link_libraries(tdi_objects PUBLIC ${TDI_IMAGE_LIBRARIES})
