# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#
# Install rules. The prefix is the Python package's folder: lib/, include/, lib/cmake/torch_distinput/.
# Destinations have no leading "./": with one, the exported targets compute a wrong prefix.

include(CMakePackageConfigHelpers)
set(cmake_destination lib/cmake/torch_distinput)

# Without the link `libtorch_distinput.so`, which a wheel would turn into a second copy.
install(TARGETS torch_distinput EXPORT torch_distinput_targets LIBRARY DESTINATION lib NAMELINK_SKIP)
install(DIRECTORY csrc/include/ DESTINATION include FILES_MATCHING PATTERN "*.h")
install(EXPORT torch_distinput_targets NAMESPACE torch_distinput::
  FILE torch_distinput_targets.cmake DESTINATION ${cmake_destination})

set(TDI_BUILT_WITH_TORCH)
if(TDI_MACHINE_RPATH)
  set(TDI_BUILT_WITH_TORCH "${TDI_TORCH_FOLDER}")
endif()
configure_package_config_file(cmake/torch_distinput-config.cmake.in
  "${CMAKE_CURRENT_BINARY_DIR}/torch_distinput-config.cmake"
  INSTALL_DESTINATION ${cmake_destination} NO_SET_AND_CHECK_MACRO NO_CHECK_REQUIRED_COMPONENTS_MACRO)
write_basic_package_version_file(
  "${CMAKE_CURRENT_BINARY_DIR}/torch_distinput-config-version.cmake" COMPATIBILITY SameMinorVersion)
install(FILES
  "${CMAKE_CURRENT_BINARY_DIR}/torch_distinput-config.cmake"
  "${CMAKE_CURRENT_BINARY_DIR}/torch_distinput-config-version.cmake"
  cmake/tdi_torch.cmake
  DESTINATION ${cmake_destination})
