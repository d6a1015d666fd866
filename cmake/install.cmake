# SPDX-License-Identifier: Apache-2.0
# What `cmake --install` lays down: library, headers, pkg-config file, CMake package.
include(CMakePackageConfigHelpers)

install(TARGETS ein_shared EXPORT ein LIBRARY)
install(DIRECTORY include/ DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.h")

file(RELATIVE_PATH prefix_from_pc /x/${CMAKE_INSTALL_LIBDIR}/pkgconfig /x)
configure_file(cmake/ein.pc.in ${PROJECT_BINARY_DIR}/ein.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/ein.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)

set(package_folder ${CMAKE_INSTALL_LIBDIR}/cmake/ein)
install(EXPORT ein NAMESPACE ein:: DESTINATION ${package_folder} FILE ein-config.cmake)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/ein-config-version.cmake
                                 COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/ein-config-version.cmake DESTINATION ${package_folder})
