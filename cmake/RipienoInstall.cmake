# `cmake --install`: headers, libraries and a package that find_package(Ripieno) finds (targets Ripieno::core, ...,
# Ripieno::ripieno, which is what an own loop needs, and Ripieno::program), and the program.
include(CMakePackageConfigHelpers)
set(package_folder "${CMAKE_INSTALL_LIBDIR}/cmake/Ripieno")

install(FILES "${PROJECT_SOURCE_DIR}/LICENSE" DESTINATION "${CMAKE_INSTALL_DOCDIR}")
get_property(rooms GLOBAL PROPERTY RIPIENO_ROOMS)
install(TARGETS ${rooms} EXPORT RipienoTargets ARCHIVE DESTINATION "${CMAKE_INSTALL_LIBDIR}")
install(DIRECTORY "${PROJECT_SOURCE_DIR}/ripieno" DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}" FILES_MATCHING PATTERN "*.h"
        PATTERN page EXCLUDE)  # no headers are there
if(RIPIENO_TORCH)
  install(TARGETS ripieno_settings ripieno_program EXPORT RipienoTargets ARCHIVE DESTINATION "${CMAKE_INSTALL_LIBDIR}")
  install(TARGETS ripieno RUNTIME DESTINATION "${CMAKE_INSTALL_BINDIR}")
  install(DIRECTORY "${CMAKE_RUNTIME_OUTPUT_DIRECTORY}/" DESTINATION "lib/ripieno" FILES_MATCHING PATTERN "ripieno-mpi-*.so")
  install(DIRECTORY "${PROJECT_SOURCE_DIR}/recipes" DESTINATION "${CMAKE_INSTALL_DATADIR}/ripieno")
  install(FILES "${PROJECT_SOURCE_DIR}/apps/ripieno/program.h" DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}/apps/ripieno")
endif()

install(EXPORT RipienoTargets NAMESPACE Ripieno:: DESTINATION "${package_folder}")
configure_package_config_file("${CMAKE_CURRENT_LIST_DIR}/RipienoConfig.cmake.in" "${CMAKE_BINARY_DIR}/RipienoConfig.cmake"
                              INSTALL_DESTINATION "${package_folder}")
write_basic_package_version_file("${CMAKE_BINARY_DIR}/RipienoConfigVersion.cmake" COMPATIBILITY SameMinorVersion)
install(FILES "${CMAKE_BINARY_DIR}/RipienoConfig.cmake" "${CMAKE_BINARY_DIR}/RipienoConfigVersion.cmake" "${CMAKE_CURRENT_LIST_DIR}/RipienoTorch.cmake"
        DESTINATION "${package_folder}")
