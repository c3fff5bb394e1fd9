# cmake --install installs the library, which other projects find by find_package(speedtorch). The program stays in its
# build folder, where ./stbench finds it.
#
# All headers are below include/speedtorch, so that they cannot clash with others.
include(CMakePackageConfigHelpers)
include(GNUInstallDirs)

set(installed_targets infinity stbench_flags kernels limits npy safetensors speedtorch unfinished)
if(TARGET kernels_cuda)
  list(APPEND installed_targets kernels_cuda)
endif()
set_target_properties(stbench_flags PROPERTIES EXPORT_NAME flags)
set(headers ${CMAKE_INSTALL_INCLUDEDIR})
target_include_directories(stbench_flags INTERFACE $<INSTALL_INTERFACE:${headers}>)
set(package ${CMAKE_INSTALL_LIBDIR}/cmake/speedtorch)

install(TARGETS ${installed_targets} EXPORT speedtorch
  ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR}/speedtorch COMPONENT speedtorch)
install(EXPORT speedtorch FILE speedtorchTargets.cmake NAMESPACE speedtorch:: DESTINATION ${package}
  COMPONENT speedtorch)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/speedtorch DESTINATION ${headers}
  COMPONENT speedtorch FILES_MATCHING PATTERN "*.h" PATTERN "*-inl.h" EXCLUDE)

get_property(speedtorch_needs GLOBAL PROPERTY speedtorch_needs)
configure_package_config_file(${CMAKE_CURRENT_LIST_DIR}/speedtorchConfig.cmake.in
  ${PROJECT_BINARY_DIR}/package/speedtorchConfig.cmake INSTALL_DESTINATION ${package})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/package/speedtorchConfigVersion.cmake
  COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/package/speedtorchConfig.cmake
  ${PROJECT_BINARY_DIR}/package/speedtorchConfigVersion.cmake ${CMAKE_CURRENT_LIST_DIR}/FindLibTorch.cmake
  DESTINATION ${package} COMPONENT speedtorch)
