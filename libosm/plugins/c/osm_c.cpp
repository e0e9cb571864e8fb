// The C functions: arguments in, no exception out. c/mesh.hpp does the work.
#include "osm/c/osm_c.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <new>
#include <utility>

#include "c/mesh.hpp"

using osm::Error;
using osm::ErrorCode;
using osm::Status;

struct osm_error {
  std::string code;
  std::string message;
};

struct osm_options {
  osm::c::MeshOptions values;
  bool incomplete = false;  // memory was exhausted in a setter
};

struct osm_mesh {
  std::unique_ptr<osm::c::Mesh> mesh;
};

struct osm_bootstrap {
  std::vector<osm::c::MachineFile> files;
  std::vector<osm_file> shown;  // points into `files`
};

namespace osm::inline v1::c {
namespace {

Error null_argument(const char* name) {
  return {ErrorCode::kInvalidArgument, std::string(name) + " is null"};
}

// A new error; null if memory is exhausted.
void give(osm_error** out, std::string_view code, std::string_view message) noexcept {
  if (out == nullptr) return;
  try {
    *out = new osm_error{std::string(code), std::string(message)};
  } catch (...) {
    *out = nullptr;
  }
}

// The result of `call`, or `failed` with its error. No exception leaves it.
template <class Call, class T>
T guarded(osm_error** out, T failed, const Call& call) noexcept {
  if (out != nullptr) *out = nullptr;
  try {
    Result<T> result = call();
    if (result.ok()) return *std::move(result);
    give(out, error_code_text(result.error().code), result.error().message);
  } catch (const std::bad_alloc&) {
    // `*out` is null, which says this.
  } catch (const std::exception& thrown) {
    give(out, "internal", thrown.what());
  } catch (...) {
    give(out, "internal", "an exception of an unknown type");
  }
  return failed;
}

// The same for calls without a result.
template <class Call>
int done(osm_error** out, const Call& call) noexcept {
  return guarded(out, -1, [&]() -> Result<int> {
    OSM_TRY(call());
    return 0;
  });
}

std::chrono::milliseconds positive(int value) {
  return std::chrono::milliseconds(std::max(value, 0));
}

// `call` with the mesh and the text.
template <class Call>
int with_objects(const osm_mesh* mesh, const char* yaml, osm_error** error,
                 const Call& call) noexcept {
  return done(error, [&]() -> Status {
    if (mesh == nullptr) return null_argument("mesh");
    if (yaml == nullptr) return null_argument("yaml");
    return call(*mesh->mesh, yaml);
  });
}

// Changes the values by `set`, if there are options.
template <class Set>
void set_option(osm_options* options, const Set& set) noexcept {
  if (options == nullptr) return;
  try {
    set(options->values);
  } catch (...) {
    options->incomplete = true;
  }
}

std::string text_or(const char* text, const std::string& fallback) {
  return text == nullptr ? fallback : std::string(text);
}

std::string text_or_empty(const char* text) { return text_or(text, std::string()); }

// The machine of a host that may have been compiled with an older or a newer header.
Result<Machine> read_machine(const osm_machine* given) {
  if (given == nullptr) return null_argument("machine");
  osm_machine known{};
  if (given->size < sizeof known.size || given->size > 4096)
    return Error{ErrorCode::kInvalidArgument, "machine: size is " + std::to_string(given->size) +
                                                  "; set it to sizeof(osm_machine)"};
  const auto* bytes = reinterpret_cast<const unsigned char*>(given);
  const auto* end = bytes + given->size;
  if (given->size > sizeof known &&
      std::any_of(bytes + sizeof known, end, [](unsigned char byte) { return byte != 0; }))
    return Error{ErrorCode::kInvalidArgument,
                 "machine: has members that this library does not know; load a newer one, or leave "
                 "them 0 (osm_c_version)"};
  std::memcpy(&known, bytes, std::min(given->size, sizeof known));
  if (known.ns == nullptr) return null_argument("machine: ns");
  if (known.name == nullptr) return null_argument("machine: name");
  if (known.directory == nullptr) return null_argument("machine: directory");
  return Machine{.ns = known.ns,
                 .name = known.name,
                 .controller = text_or_empty(known.controller),
                 .directory = known.directory,
                 .request_pem = text_or_empty(known.request_pem),
                 .proxy_uid = known.proxy_uid};
}

// For osm_text_free().
Result<char*> copied(const std::string& text) {
  auto* copy = static_cast<char*>(std::malloc(text.size() + 1));
  if (copy == nullptr) throw std::bad_alloc();
  std::memcpy(copy, text.c_str(), text.size() + 1);
  return copy;
}

}  // namespace
}  // namespace osm::inline v1::c

using namespace osm::c;  // NOLINT: the helpers above

extern "C" {

int osm_c_version(void) { return OSM_C_VERSION; }

const char* osm_error_code(const osm_error* error) {
  return error == nullptr ? "internal" : error->code.c_str();
}

const char* osm_error_message(const osm_error* error) {
  return error == nullptr ? "memory is exhausted" : error->message.c_str();
}

void osm_error_free(osm_error* error) { delete error; }

void osm_text_free(char* text) { std::free(text); }

osm_options* osm_options_new(void) {
  return guarded(nullptr, static_cast<osm_options*>(nullptr),
                 []() -> osm::Result<osm_options*> { return new osm_options; });
}

void osm_options_free(osm_options* options) { delete options; }

void osm_options_set_mesh_directory(osm_options* options, const char* path) {
  set_option(options, [&](MeshOptions& values) { values.mesh_directory = text_or_empty(path); });
}

void osm_options_set_ads_address(osm_options* options, const char* address) {
  set_option(options, [&](MeshOptions& values) {
    values.ads_address = text_or(address, MeshOptions().ads_address);
  });
}

void osm_options_set_ca_directory(osm_options* options, const char* path) {
  set_option(options, [&](MeshOptions& values) { values.ca_directory = text_or_empty(path); });
}

void osm_options_set_ca_pem(osm_options* options, const char* pem) {
  set_option(options,
             [&](MeshOptions& values) { values.ca_pem = osm::SecretBytes(text_or_empty(pem)); });
}

void osm_options_set_trust_domain(osm_options* options, const char* domain) {
  set_option(options, [&](MeshOptions& values) {
    values.trust_domain = text_or(domain, MeshOptions().trust_domain);
  });
}

void osm_options_set_log(osm_options* options, int fd, const char* level) {
  set_option(options, [&](MeshOptions& values) {
    values.log_fd = fd;
    values.log_level = text_or(level, MeshOptions().log_level);
  });
}

osm_mesh* osm_mesh_start(const osm_options* options, osm_error** error) {
  return guarded(error, static_cast<osm_mesh*>(nullptr), [&]() -> osm::Result<osm_mesh*> {
    if (options == nullptr) return null_argument("options");
    if (options->incomplete) throw std::bad_alloc();
    OSM_TRY(auto mesh, Mesh::start(options->values));
    return new osm_mesh{std::move(mesh)};
  });
}

const char* osm_mesh_ads_address(const osm_mesh* mesh) {
  return mesh == nullptr ? "" : mesh->mesh->ads_address().c_str();
}

int osm_mesh_wait_ready(osm_mesh* mesh, int timeout_ms, osm_error** error) {
  return done(error, [&]() -> Status {
    if (mesh == nullptr) return null_argument("mesh");
    return mesh->mesh->wait_ready(positive(timeout_ms));
  });
}

int osm_mesh_apply(osm_mesh* mesh, const char* yaml, osm_error** error) {
  return with_objects(mesh, yaml, error,
                      [](const Mesh& of, const char* text) { return of.apply(text); });
}

int osm_mesh_delete(osm_mesh* mesh, const char* yaml, osm_error** error) {
  return with_objects(mesh, yaml, error,
                      [](const Mesh& of, const char* text) { return of.remove(text); });
}

int osm_mesh_wait_applied(osm_mesh* mesh, const char* yaml, int timeout_ms, osm_error** error) {
  return with_objects(mesh, yaml, error, [&](const Mesh& of, const char* text) {
    return of.wait_applied(text, positive(timeout_ms));
  });
}

char* osm_mesh_get(osm_mesh* mesh, const char* target, osm_error** error) {
  return guarded(error, static_cast<char*>(nullptr), [&]() -> osm::Result<char*> {
    if (mesh == nullptr) return null_argument("mesh");
    if (target == nullptr) return null_argument("target");
    OSM_TRY(const std::string answer, mesh->mesh->get(target));
    return copied(answer);
  });
}

osm_bootstrap* osm_mesh_bootstrap(osm_mesh* mesh, const osm_machine* machine, osm_error** error) {
  return guarded(error, static_cast<osm_bootstrap*>(nullptr), [&]() -> osm::Result<osm_bootstrap*> {
    if (mesh == nullptr) return null_argument("mesh");
    OSM_TRY(const Machine known, read_machine(machine));
    auto bootstrap = std::make_unique<osm_bootstrap>();
    OSM_TRY(bootstrap->files, mesh->mesh->bootstrap(known));
    for (const MachineFile& file : bootstrap->files)
      bootstrap->shown.push_back({.name = file.name.c_str(),
                                  .content = file.content.text().c_str(),
                                  .mode = file.mode,
                                  .proxys = file.proxys ? 1 : 0});
    return bootstrap.release();
  });
}

const osm_file* osm_bootstrap_file(const osm_bootstrap* bootstrap, size_t index) {
  if (bootstrap == nullptr || index >= bootstrap->shown.size()) return nullptr;
  return &bootstrap->shown[index];
}

void osm_bootstrap_free(osm_bootstrap* bootstrap) { delete bootstrap; }

int osm_mesh_stop(osm_mesh* mesh, int deadline_ms, osm_error** error) {
  const std::unique_ptr<osm_mesh> ends(mesh);
  return done(error, [&]() -> Status {
    if (mesh == nullptr) return {};
    return mesh->mesh->stop(positive(deadline_ms));
  });
}

}  // extern "C"
