# Cross-compiles for Debian's arm64 on another architecture: g++-aarch64-linux-gnu, and libraries of the
# packages NAME-dev:arm64. docs/linking.md has the commands.
#
# Debian keeps the libraries of each architecture in a folder of its own below /usr/lib. So there is no root
# to search: with this compiler CMake takes /usr/lib/aarch64-linux-gnu in place of the build machine's folder.
# Programs that run while building (protoc, grpc_cpp_plugin) are the build machine's.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)
set(PKG_CONFIG_EXECUTABLE /usr/bin/aarch64-linux-gnu-pkg-config CACHE FILEPATH "pkg-config for arm64")

# A project that finds its own copies by CMAKE_FIND_ROOT_PATH takes no programs from there.
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)

# Runs programs for arm64 where the kernel cannot: ctest's, and those that CMake tries. qemu's binfmt_misc
# registration is not needed.
find_program(OSM_QEMU_ARM64 NAMES qemu-aarch64-static qemu-aarch64)
if(OSM_QEMU_ARM64)
  set(CMAKE_CROSSCOMPILING_EMULATOR ${OSM_QEMU_ARM64})
endif()
