#include "installer.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <stdio.h>
#include <sys/file.h>

#include <algorithm>
#include <boost/json.hpp>
#include <fstream>
#include <optional>
#include <sstream>
#include <utility>
#include <vector>

#include "base/descriptor.hpp"

namespace osm::cni {
namespace {

namespace fs = std::filesystem;
namespace json = boost::json;

constexpr const char* kLock = ".osm-cni.lock";
// The former files, which a call that runs may still use; the next ones are made there.
constexpr const char* kOther = ".osm-cni.root.other";

Error storage(const fs::path& path, const std::error_code& fault) {
  return {ErrorCode::kStorage, fmt::format("{}: {}", path.string(), fault.message())};
}

Error storage(const fs::path& path) {
  return storage(path, std::error_code(errno, std::generic_category()));
}

// Configurations by name, which is the order of runtimes.
std::vector<fs::path> configurations(const Node& node) {
  std::vector<fs::path> files;
  std::error_code fault;
  for (const auto& entry : fs::directory_iterator(node.configurations, fault)) {
    const std::string kind = entry.path().extension();
    if (kind == ".conflist" || kind == ".conf" || kind == ".json") files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  return files;
}

// The list of plugins in a file; nullopt: it is no such list.
std::optional<json::object> read_list(const fs::path& file) {
  std::ifstream stream(file);
  std::stringstream text;
  text << stream.rdbuf();
  boost::system::error_code fault;
  json::value parsed = json::parse(text.str(), fault);
  if (fault || !parsed.is_object()) return std::nullopt;
  const json::value* plugins = parsed.as_object().if_contains("plugins");
  if (plugins == nullptr || !plugins->is_array()) return std::nullopt;
  return std::move(parsed.as_object());
}

bool is_ours(const json::value& plugin) {
  const json::object* map = plugin.if_object();
  const json::value* type = map ? map->if_contains("type") : nullptr;
  return type != nullptr && *type == kProgram;
}

bool has_ours(const json::object& list) {
  return std::ranges::any_of(list.at("plugins").as_array(), is_ours);
}

// Another program that reads the file sees the old text or the new one. Runtimes ignore the name of
// the new file until then.
Status replace(const fs::path& file, const json::object& list) {
  const fs::path fresh = file.string() + ".osm-cni-new";
  Descriptor stream(open(fresh.c_str(), O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0600));
  if (!stream || !write_all(stream, json::serialize(list) + '\n') || fsync(stream.get()) != 0)
    return storage(fresh);
  std::error_code fault;
  fs::permissions(fresh, fs::status(file, fault).permissions(), fault);
  fs::rename(fresh, file, fault);
  if (fault) return storage(file, fault);
  return {};
}

Status take_out(const fs::path& file) {
  auto list = read_list(file);
  if (!list || !has_ours(*list)) return {};
  json::array kept;
  for (json::value& plugin : list->at("plugins").as_array())
    if (!is_ours(plugin)) kept.push_back(std::move(plugin));
  list->at("plugins") = std::move(kept);
  return replace(file, *list);
}

}  // namespace

Status install_programs(const Node& node, const fs::path& image) {
  std::error_code fault;
  fs::create_directories(node.programs, fault);
  // Tests have several nodes on one machine.
  const Descriptor lock(open((node.programs / kLock).c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0600));
  if (!lock || flock(lock.get(), LOCK_EX) != 0) return storage(node.programs / kLock);
  const fs::path root = node.programs / kRoot, fresh = node.programs / kOther;
  fs::remove_all(fresh, fault);
  fs::create_directories(fresh, fault);
  if (fault) return storage(fresh, fault);
  constexpr auto kHow = fs::copy_options::recursive | fs::copy_options::copy_symlinks;
  for (const char* part : {"usr", "bin", "sbin", "lib", "lib64", "etc"}) {
    if (!fs::exists(fs::symlink_status(image / part, fault))) continue;
    if (fs::is_symlink(image / part))
      fs::copy_symlink(image / part, fresh / part, fault);
    else
      fs::copy(image / part, fresh / part, kHow, fault);
    if (fault) return storage(image / part, fault);
  }
  for (const char* empty : {"proc", "dev", "run"}) fs::create_directories(fresh / empty, fault);
  if (fault) return storage(fresh, fault);
  if (fs::exists(root)) {
    if (renameat2(AT_FDCWD, fresh.c_str(), AT_FDCWD, root.c_str(), RENAME_EXCHANGE) != 0)
      return storage(root);
  } else {
    fs::rename(fresh, root, fault);
    if (fault) return storage(root, fault);
  }
  const fs::path program = node.programs / kProgram, copy = program.string() + ".new";
  fs::copy_file("/proc/self/exe", copy, fs::copy_options::overwrite_existing, fault);
  if (!fault) fs::rename(copy, program, fault);
  if (fault) return storage(program, fault);
  return {};
}

Result<fs::path> chain(const Node& node) {
  const auto files = configurations(node);
  if (files.empty())
    return Error{ErrorCode::kNotReady,
                 fmt::format("{} has no CNI configuration yet: the cluster's own network plugin "
                             "writes it",
                             node.configurations.string())};
  auto list = read_list(files.front());
  if (!list)
    return Error{
        ErrorCode::kInvalidField,
        fmt::format("{} has no list of plugins: make it a .conflist file", files.front().string())};
  if (has_ours(*list)) return files.front();
  list->at("plugins").as_array().push_back(
      json::object{{"type", kProgram},
                   {"capabilities", {{"io.kubernetes.cri.pod-annotations", true}, {"dns", true}}}});
  if (Status replaced = replace(files.front(), *list); !replaced.ok())
    return std::move(replaced).error();
  return files.front();
}

bool is_chained(const Node& node) {
  const auto files = configurations(node);
  const auto list = files.empty() ? std::nullopt : read_list(files.front());
  return list && has_ours(*list);
}

Status remove(const Node& node) {
  for (const fs::path& file : configurations(node))
    if (Status done = take_out(file); !done.ok()) return done;
  std::error_code fault;
  fs::remove(node.programs / kProgram, fault);
  if (!fault) fs::remove_all(node.programs / kRoot, fault);
  if (!fault) fs::remove_all(node.programs / kOther, fault);
  if (!fault) fs::remove(node.programs / kLock, fault);
  if (fault) return storage(node.programs, fault);
  return {};
}

}  // namespace osm::cni
