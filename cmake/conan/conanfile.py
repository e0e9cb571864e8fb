"""libosm as a Conan package, against the system's gRPC, protobuf, OpenSSL, fmt, yaml-cpp, RE2 and c-ares.

    conan create cmake/conan -s compiler.cppstd=20      in a clone; docs/linking.md has more

Conan's own packages of these libraries are not used: gRPC and protobuf would be built twice in a
program that links the system's too. `tools/setup` and Conan's system package manager install them.
"""

import os
import re

from conan import ConanFile
from conan.tools.build import check_min_cppstd
from conan.tools.cmake import CMake, CMakeToolchain
from conan.tools.files import copy, load
from conan.tools.system.package_manager import Apt

required_conan_version = ">=2.0"


class Osm(ConanFile):
    name = "osm"
    description = "A service-mesh control plane as a library"
    topics = ("service-mesh", "xds", "envoy", "smi")
    package_type = "library"
    settings = "os", "arch", "compiler", "build_type"
    options = {"shared": [True, False]}
    default_options = {"shared": False}

    @property
    def _clone(self):
        return os.path.join(self.recipe_folder, "..", "..")

    def set_version(self):
        project = load(self, os.path.join(self._clone, "CMakeLists.txt"))
        self.version = re.search(r"project\(osm VERSION ([\d.]+)", project)[1]

    def export_sources(self):
        for pattern in (
            "CMakeLists.txt",
            "cmake/*",
            "include/*",
            "libosm/*",
            "charts/*",
            "tools/cache",
            "tools/unpack-wheel",
            "tools/requirements.txt",
        ):
            copy(self, pattern, self._clone, self.export_sources_folder)

    def validate(self):
        check_min_cppstd(self, 20)

    def layout(self):
        self.folders.build = "build/conan"

    def system_requirements(self):
        # Boost is needed to build only. Debian 12's default is too old.
        Apt(self).install_substitutes(["libboost1.81-dev"], ["libboost-dev"])
        Apt(self).install(
            [
                "libgrpc++-dev",
                "protobuf-compiler",
                "libprotobuf-dev",
                "libssl-dev",
                "libfmt-dev",
                "libyaml-cpp-dev",
                "libre2-dev",
                "libc-ares-dev",
                "ninja-build",
                "python3-pip",
            ]
        )

    def source(self):
        # Envoy's protos, pinned by hash.
        self.run("tools/unpack-wheel xds-protos build/tools/xds-protos", cwd=self.source_folder)

    def generate(self):
        toolchain = CMakeToolchain(self, generator="Ninja")
        # The system's packages are below /usr, which Conan's toolchain would not search.
        toolchain.blocks.remove("find_paths")
        for part in ("DAEMONS", "EXAMPLES", "TESTS", "BENCHMARKS"):
            toolchain.cache_variables[f"OSM_BUILD_{part}"] = False
        toolchain.cache_variables["OSM_SHARED"] = bool(self.options.shared)
        toolchain.cache_variables["OSM_UNITY"] = True
        toolchain.cache_variables["OSM_WARNINGS_ARE_ERRORS"] = False
        toolchain.generate()

    def build(self):
        cmake = CMake(self)
        cmake.configure()
        cmake.build()

    def package(self):
        CMake(self).install()

    def package_info(self):
        # Consumers use libosm's own package: find_package(osm COMPONENTS ...), docs/linking.md.
        self.cpp_info.set_property("cmake_find_mode", "none")
        self.cpp_info.builddirs = ["lib/cmake/osm"]
