#!/usr/bin/python3
"""libosm as its users get it: installed, found, linked and run by projects that are not ours.

usage: consumer_test.py CASE --build DIR

`install` comes first: it installs the build in DIR, makes a shared one beside it (DIR-shared), and
moves what was installed, so that nothing can lean on where it was. Every other case consumes that, in
an environment of PATH and HOME alone. `tools/tests consumer` lists the cases.
"""

import argparse
import concurrent.futures
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
SOURCE = HERE.parent.parent
GCC, CLANG = "g++", "clang++-16"
C_COMPILERS = ("gcc", "clang-16")
WARNINGS = ["-Wall", "-Wextra", "-Wpedantic", "-Wshadow", "-Wconversion", "-Werror"]
PRODUCTS = "net vm dns azure kubernetes install cert_manager etcd vault remote admin host machine c testing"
LIBRARIES = ["osm", *(f"osm_{product}" for product in PRODUCTS.split())]
MODULES = [library.replace("_", "-") for library in LIBRARIES]  # of pkg-config
C_HEADER = "osm/c/osm_c.h"


class Failed(Exception):
    pass


def require(truth, what):
    if not truth:
        raise Failed(what)


class Place:
    """Directories of a test run, and the clean environment of its commands."""

    def __init__(self, build):
        self.build = pathlib.Path(build).resolve()
        self.shared_build = self.build.with_name(self.build.name + "-shared")
        self.sub_build = self.build.with_name(self.build.name + "-subproject")
        self.root = self.build / "consumer"
        self.static, self.both = self.root / "static", self.root / "both"
        self.cache = {}
        for line in (self.build / "CMakeCache.txt").read_text().splitlines():
            if match := re.match(r"(\w+):\w+=(.*)", line):
                self.cache[match[1]] = match[2]
        self.environment = {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": str(self.root / "home")}
        # With another OSM_CACHE_DIR, the Envoy API would be built anew: its commands name the cache.
        self.environment |= {k: v for k, v in os.environ.items() if re.match("LANG|LC_|OSM_CACHE_DIR$", k)}
        if shutil.which("ccache"):
            directory = subprocess.run(["ccache", "-k", "cache_dir"], capture_output=True, text=True)
            self.environment |= {
                "CCACHE_DIR": directory.stdout.strip(),
                "CCACHE_BASEDIR": str(SOURCE),
                "CCACHE_NOHASHDIR": "1",
                "CCACHE_SLOPPINESS": "pch_defines,time_macros,include_file_mtime,include_file_ctime",
            }
        self.launcher = ["ccache"] if shutil.which("ccache") else []

    def fresh(self, name):
        directory = self.root / name
        shutil.rmtree(directory, ignore_errors=True)
        directory.mkdir(parents=True)
        return directory

    def run(self, *command, cwd=None, fails=False, **environment):
        """The output of a command that must succeed (or must fail)."""
        command = [str(part) for part in command]
        ran = subprocess.run(
            command,
            cwd=cwd or self.root,
            text=True,
            errors="replace",
            env=self.environment | environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        if (ran.returncode != 0) != fails:
            raise Failed(
                f"{' '.join(command)}\n{ran.stdout[-6000:]}\n"
                f"exit status {ran.returncode}, expected {'a failure' if fails else '0'}"
            )
        return ran.stdout

    def same_settings(self):
        """Settings of the build under test, for another build of the same sources."""
        wanted = r"CMAKE_BUILD_TYPE|CMAKE_CXX_COMPILER|CMAKE_CXX_FLAGS\w*|OSM_(TOOLS|XDS_BUILD)_DIR|OSM_UNITY"
        return [f"-D{k}={v}" for k, v in self.cache.items() if re.fullmatch(wanted, k)]


def say(text):
    print(text, flush=True)


# install


def install(place):
    """The build and a shared one are installed and moved; no installed file names a path of the build."""
    place.root.mkdir(exist_ok=True)
    (place.root / "home").mkdir(exist_ok=True)
    place.run(
        "cmake",
        "-G",
        "Ninja",
        "-S",
        SOURCE,
        "-B",
        place.shared_build,
        "-DOSM_SHARED=ON",
        *[f"-DOSM_BUILD_{part}=OFF" for part in ("DAEMONS", "EXAMPLES", "TESTS")],
        *place.same_settings(),
    )
    place.run("cmake", "--build", place.shared_build, "-j2")
    for name, builds in (("static", [place.build]), ("both", [place.build, place.shared_build])):
        elsewhere = place.fresh("as-installed")
        for build in builds:
            place.run("cmake", "--install", build, "--prefix", elsewhere)
        knows_no_paths(elsewhere)
        shutil.rmtree(place.root / name, ignore_errors=True)
        elsewhere.rename(place.root / name)
        say(f"installed: {name}")
    staged = place.fresh("destdir")
    place.run("cmake", "--install", place.build, "--prefix", "/opt/osm", DESTDIR=str(staged))
    for file in (
        "lib/libosm.a",
        "lib/pkgconfig/osm.pc",
        "lib/cmake/osm/osm-config.cmake",
        "include/osm/control_plane.hpp",
        "share/osm/proto/openservicemesh/certificate/v1/proxy_certificate.proto",
    ):
        require((staged / "opt/osm" / file).exists(), f"DESTDIR: no {file} in {staged}/opt/osm")
    say("installed: under a DESTDIR")


def knows_no_paths(prefix):
    """Nothing installed names where it was built or installed (but for debug information)."""
    with tempfile.TemporaryDirectory() as scratch:
        for file in sorted(p for p in prefix.rglob("*") if p.is_file() and not p.is_symlink()):
            looked_at = file
            if file.suffix == ".a" or ".so" in file.name or file.parent.name == "bin":
                looked_at = pathlib.Path(scratch) / "stripped"
                subprocess.run(["strip", "--strip-debug", "-o", looked_at, file], check=True)
            content = looked_at.read_bytes()
            for path in (SOURCE, prefix):
                at = content.find(bytes(path) + b"/")
                require(
                    at < 0, f"{file.relative_to(prefix)} names a path of the build: {content[max(at, 0) : at + 200]!r}"
                )


# exports


def exports(place):
    """Shared libraries export `osm::v1` only, `libosm_c` the C functions only, and everything that public
    headers declare; SONAME and RUNPATH are right."""
    lib = place.both / "lib"
    shown = r"((typeinfo( name)?|vtable|VTT) for |(non-)?virtual thunk to )?osm::v1::"
    c_functions = set(
        re.findall(r"^OSM_C_API [^(]*?(osm_\w+)\(", (place.both / "include" / C_HEADER).read_text(), re.M)
    )
    visible = set()
    for name in LIBRARIES:
        library = lib / f"lib{name}.so"
        foreign = []
        for line in place.run("nm", "-DC", "--defined-only", library).splitlines():
            symbol = line.split(" ", 2)[2]
            if not (symbol in c_functions if name == "osm_c" else re.match(shown, symbol)):
                foreign.append(symbol)
        require(not foreign, f"{library.name} shows what is neither osm::v1 nor of {C_HEADER}: {foreign[:5]}")
        visible |= set(place.run("nm", "-D", "--defined-only", "-j", library).split())
        dynamic = place.run("readelf", "-d", library)
        version = re.search(r"Library soname: \[(.+)\]", dynamic)[1]
        require(re.fullmatch(rf"lib{name}\.so\.\d+\.\d+", version), f"SONAME of {name}: {version}")
        require((lib / version).exists(), f"{version} is not installed")
        runpath = re.search(r"R(?:UN)?PATH.*\[(.*)\]", dynamic)
        require(runpath is None or runpath[1] == "$ORIGIN", f"{name}: RUNPATH {runpath and runpath[1]}")
        say(f"exports: {library.name}: {len(visible)} names so far, all ours; SONAME {version}")
    missing = sorted(c_functions - visible)
    require(len(c_functions) > 20 and not missing, f"{C_HEADER} declares what no library exports: {missing}")
    say(f"exports: all {len(c_functions)} functions of {C_HEADER} are there, and nothing else of libosm_c.so")
    everything_public_is_there(place, visible)
    for name in LIBRARIES:
        archive = lib / f"lib{name}.a"
        symbols = place.run("nm", "-C", "--defined-only", archive).splitlines()
        of_no_version = [s for s in symbols if re.search(r"\bosm::(?!v1\b)", s)]
        require(not of_no_version, f"{archive.name}: not in osm::v1: {of_no_version[:5]}")
        # The second is of our own protos.
        ours = r"\b(osm::v1::|openservicemesh::(certificate|provider)::v1::|boost(::|_asio_))"
        strong = [
            s
            for s in symbols
            if re.match(r"[0-9a-f]+ [TDBR] ", s)
            and not re.search(ours, s)
            and not (name == "osm_c" and s.split(" ", 2)[2] in c_functions)
        ]
        require(not strong, f"{archive.name} defines names of nobody's namespace: {strong[:5]}")
    say("exports: every name of the static libraries is in osm::v1 (or Boost's)")


def everything_public_is_there(place, visible):
    """Each function that a public header declares, and does not define, is exported."""
    headers = sorted(p.relative_to(place.both / "include") for p in (place.both / "include/osm").rglob("*.hpp"))
    unit = place.root / "all_headers.cpp"
    unit.write_text("".join(f"#include <{header}>\n" for header in headers))
    dump = "\n" + place.run(
        CLANG,
        "-std=c++20",
        "-fsyntax-only",
        "-Xclang",
        "-ast-dump=json",
        "-Xclang",
        "-ast-dump-filter=osm::v1",
        *include_flags(place.both),
        unit,
    )
    declared, defined = {}, set()

    def visit(node):
        kind, mangled = node.get("kind", ""), node.get("mangledName")
        if kind in ("ClassTemplateDecl", "FunctionTemplateDecl", "ClassTemplatePartialSpecializationDecl"):
            return
        if kind in ("FunctionDecl", "CXXMethodDecl", "CXXConstructorDecl", "CXXDestructorDecl"):
            body = any(c.get("kind") in ("CompoundStmt", "CXXTryStmt") for c in node.get("inner", []))
            if (
                body
                or node.get("pure")
                or node.get("explicitlyDefaulted")
                or node.get("explicitlyDeleted")
                or node.get("isImplicit")
                or node.get("inline")
            ):
                defined.add(mangled)
            elif mangled:
                declared[mangled] = node.get("name")
            return
        if kind == "CXXRecordDecl":
            access = "private" if node.get("tagUsed") == "class" else "public"
            for child in node.get("inner", []):
                if child.get("kind") == "AccessSpecDecl":
                    access = child.get("access", access)
                elif access != "private" or child.get("virtual"):
                    visit(child)
            return
        for child in node.get("inner", []):
            visit(child)

    decoder, at = json.JSONDecoder(), 0
    while (at := dump.find("\n{", at)) >= 0:
        node, end = decoder.raw_decode(dump, at + 1)
        visit(node)
        at = end
    declared = {m: n for m, n in declared.items() if m not in defined}
    missing = sorted(name for mangled, name in declared.items() if mangled not in visible)
    require(len(declared) > 100, f"only {len(declared)} functions found in the public headers")
    require(
        not missing,
        f"declared in a public header, exported by no library: {missing}. Mark them, or their class, with OSM_API.",
    )
    say(f"exports: all {len(declared)} functions that the public headers declare are there")


def include_flags(prefix):
    return ["-I", prefix / "include", "-isystem", prefix / "include/osm-envoy-api"]


# headers


def headers(place):
    """Each public header compiles alone with g++; all together in reverse with g++ and clang, as C++20 and
    C++23, without exceptions and RTTI; the C header as C99 and C++98."""
    names = sorted(p.relative_to(place.static / "include") for p in (place.static / "include/osm").rglob("*.hpp"))
    require(len(names) > 40, f"only {len(names)} public headers are installed")
    work = place.fresh("headers")

    def compile_headers(compiler, flags, unit, headers):
        unit = work / f"{unit}.{compiler}.cpp"
        unit.write_text("".join(f"#include <{header}>\n" for header in headers))
        place.run(compiler, *WARNINGS, *flags, *include_flags(place.static), "-fsyntax-only", unit)

    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        jobs = [
            pool.submit(compile_headers, GCC, ["-std=c++20"], str(header).replace("/", "_"), [header])
            for header in names
        ]
        for job in jobs:
            job.result()
    say(f"headers: {len(names)} alone, {GCC}, -std=c++20")
    for compiler, *flags in (
        (GCC, "-std=c++2b"),
        (CLANG, "-std=c++20"),
        (CLANG, "-std=c++2b", "-fno-exceptions", "-fno-rtti"),
    ):
        compile_headers(compiler, flags, "all" + flags[0], reversed(names))
        say(f"headers: together, in reverse, {compiler} {' '.join(flags)}")
    for compiler, suffix, *flags in (
        *((c, ".c", "-std=c99", "-Wstrict-prototypes") for c in C_COMPILERS),
        *((c, ".cpp", "-std=c++98") for c in (GCC, CLANG)),
    ):
        unit = (work / f"c_header.{compiler}").with_suffix(suffix)
        unit.write_text(f"#include <{C_HEADER}>\n")
        place.run(compiler, *WARNINGS, *flags, *include_flags(place.static), "-fsyntax-only", unit)
        say(f"headers: {C_HEADER}, {compiler} {' '.join(flags)}")


# find_package


def run_program(place, program, **environment):
    with tempfile.TemporaryDirectory() as directory:
        said = place.run(program, cwd=directory, **environment)
    expected = {"protos": "mesh: ok\nprotos: ok\n"}.get(program.name, f"{program.name}: ok\n")
    require(said == expected, f"{program} said: {said}")


def links_libosm(place, program, **environment):
    return "libosm.so" in place.run("ldd", program, **environment)


def configure(place, project, work, compiler, prefix, *settings, fails=False):
    launcher = [f"-DCMAKE_CXX_COMPILER_LAUNCHER={place.launcher[0]}"] if place.launcher else []
    return place.run(
        "cmake",
        "-G",
        "Ninja",
        "-S",
        project,
        "-B",
        work,
        f"-DCMAKE_CXX_COMPILER={compiler}",
        f"-DCMAKE_PREFIX_PATH={prefix}",
        *launcher,
        *settings,
        fails=fails,
    )


def find_package(place):
    """`find_package` works: static with g++ and shared with clang."""
    for compiler, prefix, shared in ((GCC, place.static, "OFF"), (CLANG, place.both, "ON")):
        work = place.fresh(f"find_package-{compiler}")
        configure(place, HERE / "find_package", work, compiler, prefix, f"-DBUILD_SHARED_LIBS={shared}")
        place.run("cmake", "--build", work, "-j2")
        for name in ("front_door", "mesh", "machines", "agent", "chart", "host"):
            run_program(place, work / name)
            require(links_libosm(place, work / name) == (shared == "ON"), f"{name}: wrong flavour")
            say(f"find_package: {compiler} {'shared' if shared == 'ON' else 'static'} {name}")


# Boost


def boost(place):
    """No public header includes Boost, and the package needs none; a program with an `io_context` of another
    version does not link."""
    work = place.fresh("boost")
    unit = work / "loop.cpp"
    unit.write_text(
        "#include <osm/runtime/asio_executor.hpp>\n"
        "osm::net::AsioExecutor made(boost::asio::io_context& c) {\n"
        "  return osm::net::AsioExecutor(c);\n}\n"
        "int main(int count, char**) { return count > 9 && (&made)(*(boost::asio::io_context*)nullptr)"
        ".running_in_this_thread(); }\n"
    )
    other = work / "other"
    (other / "boost").mkdir(parents=True)
    (other / "boost/version.hpp").write_text("#define BOOST_VERSION 107400\n")
    for prefix in (place.static, place.both):
        static = ["--static"] if prefix == place.static else []
        flags = ask_pkg_config(place, prefix, *static, "--cflags", "--libs", "osm-net")
        place.run(GCC, "-std=c++20", unit, "-o", work / "loop", *flags)
        place.run(work / "loop", LD_LIBRARY_PATH=str(prefix / "lib"))
        said = place.run(GCC, "-std=c++20", "-I", other, unit, "-o", work / "loop", *flags, fails=True)
        require("BuiltWithBoost<107400>::check()" in said, f"another Boost is refused otherwise:\n{said}")
    say("boost: an io_context of the same version links, of another one does not")
    unit.write_text(
        "".join(
            f"#include <{p.relative_to(place.both / 'include')}>\n"
            for p in sorted((place.both / "include/osm").rglob("*.hpp"))
        )
    )
    depends = place.run(GCC, "-std=c++20", "-M", *include_flags(place.both), unit)
    seen = set(re.findall(r"/include/boost/(\S+)", depends))
    require(seen == {"version.hpp"}, f"public headers include Boost: {sorted(seen)[:5]}")
    say("boost: no public header includes it, but for its version")
    project = work / "project"
    project.mkdir()
    (project / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.25)\nproject(without LANGUAGES CXX)\n"
        "set(Boost_VERSION_STRING ${OTHER_BOOST})\n"
        "find_package(osm 0.1 CONFIG REQUIRED COMPONENTS net vm admin)\n"
    )
    absent = "-DCMAKE_DISABLE_FIND_PACKAGE_Boost=ON"
    for prefix, flavour in ((place.static, "OFF"), (place.both, "ON")):
        configure(
            place, project, place.fresh("boost-configured"), GCC, prefix, absent, f"-DBUILD_SHARED_LIBS={flavour}"
        )
    configure(
        place,
        project,
        place.fresh("boost-configured"),
        GCC,
        place.both,
        "-DOTHER_BOOST=1.74.0",
        "-DBUILD_SHARED_LIBS=ON",
    )
    said = configure(
        place, project, place.fresh("boost-configured"), GCC, place.static, "-DOTHER_BOOST=1.74.0", fails=True
    )
    require("This static libosm holds Boost" in said, f"a static libosm beside another Boost:\n{said}")
    say("boost: find_package() needs none; a static libosm refuses another version beside it")


# The examples, built as their READMEs say


def examples(place):
    """Each example builds outside of this project, as its README says."""
    for name in ("c_host", "custom_endpoints_provider", "custom_mesh_spec", "embed", "machine_agent", "minimal"):
        work = place.fresh(f"examples-{name}")
        configure(place, SOURCE / "examples" / name, work, GCC, place.static)
        place.run("cmake", "--build", work, "-j2")
        place.run(work / name, fails=True)  # it says how to call it
        say(f"examples: {name}")
    work = place.fresh("examples-python_host")
    configure(place, SOURCE / "examples/python_host", work, GCC, place.static)
    place.run("cmake", "--build", work, "-j2")
    for library in (work / "libosm_c.so", place.both / "lib/libosm_c.so"):
        said = place.run(
            sys.executable, SOURCE / "examples/python_host/python_host.py", library, "nowhere", work, fails=True
        )
        require("invalid-argument: osm_options_set_ads_address()" in said, f"{library}: {said}")
        say(f"examples: python_host with {library.relative_to(place.root)}")


# pkg-config


def ask_pkg_config(place, prefix, *arguments):
    said = place.run("pkg-config", *arguments, PKG_CONFIG_PATH=str(prefix / "lib/pkgconfig"))
    return said.split()


def build_by_hand(place, prefix, compiler, program, modules, *static):
    flags = ask_pkg_config(place, prefix, "--cflags", *modules)
    libraries = ask_pkg_config(place, prefix, *static, "--libs", *modules)
    work = place.fresh(f"pkg-config-{program}-{compiler}")
    unit = work / f"{program}.o"
    place.run(
        *place.launcher, compiler, "-std=c++20", *WARNINGS, *flags, "-c", HERE / f"programs/{program}.cpp", "-o", unit
    )
    place.run(compiler, unit, "-o", work / program, *libraries)
    return work / program


def pkg_config(place):
    """`pkg-config` works: static with clang and shared with g++, in C++ and C99, as a user who owns nothing."""
    for module in MODULES:
        version = ask_pkg_config(place, place.static, "--modversion", module)
        require(version == [place.cache["CMAKE_PROJECT_VERSION"]], f"{module}: version {version}")
    mesh = build_by_hand(place, place.static, CLANG, "mesh", ["osm-testing"], "--static")
    run_program(place, mesh)
    require(not links_libosm(place, mesh), "mesh: links libosm.so")
    say(f"pkg-config: {CLANG} static mesh")
    machines = build_by_hand(place, place.both, GCC, "machines", ["osm-net", "osm-vm", "osm-testing"])
    run_program(place, machines, LD_LIBRARY_PATH=str(place.both / "lib"))
    say(f"pkg-config: {GCC} shared machines")
    for compiler, prefix, static in zip(C_COMPILERS, (place.static, place.both), (["--static"], [])):
        program = place.fresh(f"pkg-config-c-{compiler}") / "c_host"
        place.run(
            compiler,
            "-std=c99",
            *WARNINGS,
            SOURCE / "examples/c_host/main.c",
            "-o",
            program,
            *ask_pkg_config(place, prefix, *static, "--cflags", "--libs", "osm-c"),
        )
        said = place.run(program, "nowhere", "mesh", "state", fails=True, LD_LIBRARY_PATH=str(prefix / "lib"))
        require("invalid-argument: osm_options_set_ads_address()" in said, f"{program}: {said}")
        say(f"pkg-config: {compiler} -std=c99 {'static' if static else 'shared'} c_host")
    nobodys(place)


def nobodys(place):
    """A user who owns nothing of all this builds and runs a program."""
    if os.geteuid() != 0:
        return say("pkg-config: by the user who runs this, who is not root")
    with tempfile.TemporaryDirectory() as directory:
        home = pathlib.Path(directory)
        home.chmod(0o777)
        shutil.copytree(place.static, home / "prefix", symlinks=True)
        shutil.copy(HERE / "programs/front_door.cpp", home)
        place.run(
            "setpriv",
            "--reuid=65534",
            "--regid=65534",
            "--clear-groups",
            "sh",
            "-ec",
            "export PKG_CONFIG_PATH=$PWD/prefix/lib/pkgconfig; "
            "g++ -std=c++20 front_door.cpp -o front_door "
            "$(pkg-config --static --cflags --libs osm); ./front_door",
            cwd=home,
        )
    say("pkg-config: as a user who owns nothing of it")


# The same protos twice


def protos(place):
    """A program with its own copy of the Envoy API links as linking.md says, under ld, mold and lld."""
    work = place.fresh("protos")
    own = work / "libhost_protos.a"  # the host's own build, the same to the last byte
    shutil.copy(place.static / "lib/libosm_envoy_api.a", own)
    units = {}
    for compiler in (GCC, CLANG):
        flags = ask_pkg_config(place, place.both, "--cflags", "osm-testing", "osm-envoy-api")
        flags = [f.replace("-I", "-isystem", 1) if "osm-envoy-api" in f else f for f in flags]
        units[compiler] = []
        for program, define in (("protos", []), ("mesh", ["-Dmain=run_mesh"])):
            unit = work / f"{program}.{compiler}.o"
            place.run(
                *place.launcher,
                compiler,
                "-std=c++20",
                *WARNINGS,
                *flags,
                *define,
                "-c",
                HERE / f"programs/{program}.cpp",
                "-o",
                unit,
            )
            units[compiler].append(unit)

    def link(name, prefix, compiler, *options, host=own):
        static = ["--static"] if prefix == place.static else []
        libraries = ask_pkg_config(place, prefix, *static, "--libs", "osm-testing", "osm-envoy-api")
        (work / name).mkdir()
        program = work / name / "protos"
        place.run(compiler, *units[compiler], "-o", program, host, *options, *libraries)
        return program

    runtime = {"LD_LIBRARY_PATH": f"{place.both / 'lib'}:{work}"}
    run_program(place, link("static", place.static, GCC))
    say("protos: the host's own, and a static libosm (g++, ld)")
    for compiler, *options in ((GCC, "-fuse-ld=bfd"), (GCC, "-fuse-ld=mold", "-rdynamic"), (CLANG, "-fuse-ld=lld-16")):
        linker = " ".join(options)
        program = link(f"shared{linker.replace(' ', '')}", place.both, compiler, *options)
        require(links_libosm(place, program, **runtime), "protos: wrong flavour")
        mine = place.run("nm", "-C", "--defined-only", program)
        require("envoy::config::cluster::v3::Cluster::Clear()" in mine, "the host's protos are unused")
        run_program(place, program, **runtime)
        say(f"protos: the host's own, and a shared libosm ({compiler}, {linker})")
    shared_own = work / "libhost_protos.so"
    place.run(GCC, "-shared", "-o", shared_own, "-Wl,--whole-archive", own, "-Wl,--no-whole-archive", "-lprotobuf")
    for flavour, prefix in (("static", place.static), ("shared", place.both)):
        program = link(f"shared-own-{flavour}", prefix, GCC, host=shared_own)
        run_program(place, program, **runtime)
        say(f"protos: the host's own in a shared library, and a {flavour} libosm")
    # docs/linking.md says that this cannot work, and what does instead.
    hidden = link("hidden", place.both, GCC, "-Wl,--exclude-libs,ALL")
    said = place.run(hidden, cwd=work, fails=True, **runtime)
    require("File already exists in database" in said, f"hidden protos failed otherwise: {said}")
    run_program(place, link("hidden-static", place.static, GCC, "-Wl,--exclude-libs,ALL"))
    say("protos: the host's own but hidden: not with a shared libosm, but with a static one")


# add_subdirectory


def subproject(place):
    """`add_subdirectory` in a host with its own fmt, Envoy API and C++23 leaves the host's settings alone."""
    xds = pathlib.Path(place.cache["OSM_XDS_BUILD_DIR"])
    place.root.mkdir(exist_ok=True)  # `install` may not have begun
    own = place.root / "libhost_protos.a"
    shutil.copy(xds / "libosm_envoy_api.a", own)
    # Not made anew each time: the host has all of libosm to compile.
    place.run(
        "cmake",
        "-G",
        "Ninja",
        "-S",
        HERE / "subproject",
        "-B",
        place.sub_build,
        f"-DOSM_SOURCE_DIR={SOURCE}",
        f"-DHOST_PROTOS={own}",
        f"-DHOST_PROTOS_INCLUDE={xds / 'gen'}",
        # As in our own build: what the compiler cache has is found again.
        "-DOSM_WARNINGS_ARE_ERRORS=ON",
        *place.same_settings(),
    )
    place.run("cmake", "--build", place.sub_build, "-j2", "--target", "mesh", "machines", "protos")
    for name in ("mesh", "machines", "protos"):
        run_program(place, place.sub_build / name)
        say(f"subproject: {GCC} static {name}: own fmt, own Envoy API, C++23 over C++20")
    listed = place.run("ctest", "-N", cwd=place.sub_build)
    require("Total Tests: 0" in listed, "a host is given libosm's tests")


# Uses that must be refused


def refusals(place):
    """The package refuses wrong uses with one clear sentence."""
    project = place.fresh("refused-project")
    (project / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.25)\nproject(refused LANGUAGES ${LANGUAGE})\n"
        "find_package(osm ${VERSION} CONFIG REQUIRED COMPONENTS ${COMPONENT})\n"
    )
    cases = {
        "C++20, and CMAKE_CXX_STANDARD is 17": ["-DCMAKE_CXX_STANDARD=17"],
        "_GLIBCXX_USE_CXX11_ABI=1": ["-DCMAKE_CXX_FLAGS=-D_GLIBCXX_USE_CXX11_ABI=0"],
        'no component "mainframe"': ["-DCOMPONENT=mainframe"],
        "Only the other flavour": ["-DCOMPONENT=shared"],
        "enable the language": ["-DLANGUAGE=C"],
        'requested version "0.2"': ["-DVERSION=0.2"],
    }
    for text, settings in cases.items():
        given = {"LANGUAGE": "CXX", "VERSION": "0.1", "COMPONENT": "vm"}
        said = configure(
            place,
            project,
            place.fresh("refused"),
            GCC,
            place.static,
            *[f"-D{k}={v}" for k, v in given.items()],
            *settings,
            fails=True,
        )
        require(text in " ".join(said.split()), f"{settings}: no word of {text!r} in:\n{said}")
        say(f"refused: {' '.join(settings)}: {text}")
    unit = project / "older.cpp"  # pkg-config cannot look at the language: the headers do
    unit.write_text("#include <osm/control_plane.hpp>\n")
    for compiler in (GCC, CLANG):
        said = place.run(
            compiler, "-std=c++17", "-Wfatal-errors", "-fsyntax-only", *include_flags(place.static), unit, fails=True
        )
        require("libosm needs C++20" in said, f"{compiler} as C++17 said:\n{said}")
        say(f"refused: {compiler} -std=c++17")


CASES = {
    "install": install,
    "exports": exports,
    "headers": headers,
    "find_package": find_package,
    "boost": boost,
    "examples": examples,
    "pkg_config": pkg_config,
    "protos": protos,
    "subproject": subproject,
    "refusals": refusals,
}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("case", choices=CASES)
    parser.add_argument("--build", required=True)
    arguments = parser.parse_args()
    for tool in ("cmake", "ninja", "pkg-config", GCC, CLANG, "mold", "ld.lld-16"):
        if shutil.which(tool) is None:
            sys.exit(f"{tool} is missing: tools/setup installs it")
    place = Place(arguments.build)
    try:
        CASES[arguments.case](place)
    except Failed as failure:
        sys.exit(f"FAILED: {arguments.case}: {failure}")


main()
