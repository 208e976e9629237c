# What `cmake --install` installs.
#
# For a wheel: the program and the libraries, where ./bench looks for them
# (tools/overlapbench/installation.py). Otherwise: the program, the libraries, the headers, and the
# CMake package with which other projects build their own bench (overlapbenchConfig.cmake.in).
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

set(libraries overlapbench_library)
if(overlapbench_with_cuda)
  list(APPEND libraries overlapbench_kernels)
endif()

if(OVERLAPBENCH_SANITIZE)
  install(CODE "message(FATAL_ERROR \"a build with sanitizers cannot be installed: use the preset release\")")
elseif(SKBUILD)
  install(TARGETS overlapbench RUNTIME DESTINATION overlapbench/suite/build/release)
  install(TARGETS ${libraries} LIBRARY DESTINATION overlapbench/suite/build/release)
else()
  set(overlapbench_headers ${CMAKE_INSTALL_INCLUDEDIR}/overlapbench)
  set(package ${CMAKE_INSTALL_LIBDIR}/cmake/overlapbench)
  get_property(tiers GLOBAL PROPERTY overlapbench_tiers)
  set_target_properties(overlapbench_tier_benchmarks PROPERTIES EXPORT_NAME suite)
  set_target_properties(overlapbench_tier_program PROPERTIES EXPORT_NAME main)
  set_target_properties(overlapbench_library PROPERTIES EXPORT_NAME measuring)
  install(TARGETS overlapbench)
  install(TARGETS ${tiers} ${libraries} EXPORT overlapbenchTargets
    INCLUDES DESTINATION ${overlapbench_headers})
  install(EXPORT overlapbenchTargets NAMESPACE overlapbench:: DESTINATION ${package})

  # Headers keep the paths by which sources include them. The user's lists need the catalog's source.
  foreach(folder IN ITEMS device ranks workload kernels comm fixtures report benchmarks interface)
    install(DIRECTORY ${folder} DESTINATION ${overlapbench_headers}
      FILES_MATCHING PATTERN *.h PATTERN *.def PATTERN catalog.cc)
  endforeach()

  configure_package_config_file(cmake/overlapbenchConfig.cmake.in package/overlapbenchConfig.cmake
    INSTALL_DESTINATION ${package} PATH_VARS overlapbench_headers)
  write_basic_package_version_file(package/overlapbenchConfigVersion.cmake
    COMPATIBILITY SameMinorVersion)
  set(built ${CMAKE_CURRENT_BINARY_DIR}/package)
  install(FILES ${built}/overlapbenchConfig.cmake ${built}/overlapbenchConfigVersion.cmake
    cmake/add_bench.cmake cmake/dependencies.cmake cmake/enable_cuda.cmake cmake/FindNCCL.cmake
    DESTINATION ${package})
endif()
