// `osm edit`: one object in an editor, written back if nobody else changed it meanwhile.
#include <sys/wait.h>
#include <unistd.h>

#include <boost/json/object.hpp>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <memory>
#include <string>
#include <system_error>

#include "base/descriptor.hpp"
#include "base/json.hpp"
#include "base/read_file.hpp"
#include "mesh/commands.hpp"
#include "mesh/object_commands.hpp"

namespace osm::cli {
namespace {

namespace json = boost::json;

Error storage(const std::string& what) {
  return {ErrorCode::kStorage, what + ": " + std::generic_category().message(errno)};
}

// A file of this user's only, with a name that editors know as YAML.
Result<std::string> write_temporary(const std::string& text) {
  const char* const directory = std::getenv("TMPDIR");
  std::string path =
      std::string(directory && *directory ? directory : "/tmp") + "/osm-edit-XXXXXX.yaml";
  const Descriptor file(::mkstemps(path.data(), 5));  // mode 0600
  if (!file) return storage(path);
  std::ofstream out(path, std::ios::binary);
  out << text;
  if (!out.flush()) return storage(path);
  return path;
}

std::string editor() {
  for (const char* const name : {"VISUAL", "EDITOR"})
    if (const char* const value = std::getenv(name); value && *value) return value;
  return "vi";
}

// The editor's words are a shell's, as for git and kubectl. Ctrl-C belongs to the editor.
Status run_editor(const std::string& path) {
  const std::string with = editor();
  const auto interrupt = std::signal(SIGINT, SIG_IGN);
  const auto quit = std::signal(SIGQUIT, SIG_IGN);
  const pid_t child = ::fork();
  if (child == 0) {
    std::signal(SIGINT, SIG_DFL);
    std::signal(SIGQUIT, SIG_DFL);
    const std::string script = with + " \"$1\"";
    ::execl("/bin/sh", "sh", "-c", script.c_str(), "osm-edit", path.c_str(),
            static_cast<char*>(nullptr));
    ::_exit(127);
  }
  int status = 0;
  while (child > 0 && ::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  std::signal(SIGINT, interrupt);
  std::signal(SIGQUIT, quit);
  if (child < 0) return storage("fork");
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return {};
  return Error{ErrorCode::kStorage,
               "the editor '" + with + "' failed; nothing was written. $EDITOR chooses another"};
}

int edit(const Flags& flags, const ObjectKey& key) {
  const AdminClient client = flags.client();
  const auto object = get_object(client, key);
  if (!object.ok()) return fail(flags, object.error());
  // Fail before somebody has written much.
  if (text_at(map_at(*object, "metadata"), "resourceVersion").empty()) {
    const auto refusal = client.post("/v1/objects/apply", {{"dry_run", "true"}},
                                     json::object{{"objects", json::array{*object}}});
    if (!refusal.ok()) return fail(flags, refusal.error());
  }
  Flags as_yaml = flags;
  as_yaml.output = "yaml";
  const std::string before = as_yaml.written(*object);
  const auto path = write_temporary(before);
  if (!path.ok()) return fail(flags, path.error());
  std::error_code ignored;
  if (const Status edited = run_editor(*path); !edited.ok()) {
    std::filesystem::remove(*path, ignored);
    return fail(flags, edited.error());
  }
  const auto kept = [&](int code) {
    std::cerr << "osm: nothing was written; your text is in " << *path << '\n';
    return code;
  };
  const auto after = read_file(*path, kMaxFileBytes);
  if (!after.ok()) return kept(fail(flags, after.error()));
  if (*after == before) {
    std::filesystem::remove(*path, ignored);
    std::cerr << "osm: " << key.str() << " is unchanged\n";
    return kDone;
  }
  auto documents = read_documents({*path});
  if (!documents.ok()) return kept(fail(flags, documents.error()));
  const int code = report_changes(
      flags, client.post("/v1/objects/apply", {}, json::object{{"objects", *std::move(documents)}}),
      false);
  if (code != kDone) return kept(code);
  std::filesystem::remove(*path, ignored);
  return kDone;
}

}  // namespace

void add_edit(CLI::App& root, Flags& flags) {
  struct Options {
    std::string kind, name, ns;
  };
  auto options = std::make_shared<Options>();
  CLI::App* app = command(root, flags, "edit", "Edit one object of a mesh in etcd",
                          "osm edit traffictarget shop/web\n"
                          "  EDITOR=nano osm edit mc osm-mesh-config -n osm-system");
  app->footer(app->get_footer() +
              "\n\n$VISUAL or $EDITOR edits it as YAML; default: vi. If somebody else changed the "
              "object meanwhile, or\nif it is invalid, nothing is written and the file is kept.");
  app->add_option("KIND", options->kind, object_kinds())->required();
  app->add_option("NAME", options->name, "[NAMESPACE/]NAME of the object")->required();
  app->add_option("-n,--namespace", options->ns, "Its namespace, if NAME has none");
  app->callback([&flags, options] {
    const auto key = parse_object(options->kind, options->ns, options->name);
    flags.exit_code = key.ok() ? edit(flags, *key) : fail(flags, key.error());
  });
}

}  // namespace osm::cli
