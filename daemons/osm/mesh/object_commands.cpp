// `osm apply`, `osm get`, `osm delete`: the mesh's objects, through the controller.
#include "mesh/object_commands.hpp"

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <iostream>
#include <iterator>
#include <memory>
#include <system_error>
#include <utility>

#include "base/json.hpp"
#include "base/read_file.hpp"
#include "mesh/commands.hpp"
#include "osm/spec/kinds.hpp"
#include "show.hpp"

namespace osm::cli {
namespace {

namespace fs = std::filesystem;
namespace json = boost::json;
using spec::Kind;

Error invalid(std::string message) { return {ErrorCode::kInvalidArgument, std::move(message)}; }

std::string lower(std::string_view text) {
  std::string out(text);
  for (char& c : out) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return out;
}

// Failure: kNotFound, kStorage.
Result<std::vector<std::string>> files_of(const std::string& path) {
  std::error_code fault;
  if (!fs::is_directory(path, fault)) return std::vector{path};
  std::vector<std::string> files;
  for (fs::recursive_directory_iterator at(path, fault), end; !fault && at != end;
       at.increment(fault)) {
    const std::string extension = at->path().extension();
    if (at->is_regular_file(fault) &&
        (extension == ".yaml" || extension == ".yml" || extension == ".json"))
      files.push_back(at->path());
  }
  if (fault) return Error{ErrorCode::kStorage, path + ": " + fault.message()};
  if (files.empty()) return invalid(path + ": has no .yaml, .yml or .json file");
  std::ranges::sort(files);
  return files;
}

Result<std::string> read_text(const std::string& path) {
  if (path != "-") {
    auto text = read_file(path, kMaxFileBytes);
    if (!text.ok() && text.error().code == ErrorCode::kUnreadableSource)
      return Error{ErrorCode::kStorage, text.error().message};  // it was not the controller
    return text;
  }
  std::string text{std::istreambuf_iterator<char>(std::cin), {}};
  if (text.size() > kMaxFileBytes) return Error{ErrorCode::kTooLarge, "standard input: too large"};
  return text;
}

struct ApplyOptions {
  std::vector<std::string> files;
  std::string kind, name, ns;
  bool dry_run = false;
};

std::string_view yes(bool value) { return value ? "true" : ""; }

int apply(const Flags& flags, const ApplyOptions& options) {
  auto documents = read_documents(options.files);
  if (!documents.ok()) return fail(flags, documents.error());
  return report_changes(
      flags,
      flags.client().post("/v1/objects/apply", {{"dry_run", yes(options.dry_run)}},
                          json::object{{"objects", *std::move(documents)}}),
      options.dry_run);
}

Result<json::array> named(const ApplyOptions& options) {
  OSM_TRY(const ObjectKey key, parse_object(options.kind, options.ns, options.name));
  return json::array{document_of(key)};
}

int remove(const Flags& flags, const ApplyOptions& options) {
  auto documents = options.files.empty() ? named(options) : read_documents(options.files);
  if (!documents.ok()) return fail(flags, documents.error());
  return report_changes(
      flags,
      flags.client().post("/v1/objects/delete", {{"dry_run", yes(options.dry_run)}},
                          json::object{{"objects", *std::move(documents)}}),
      options.dry_run);
}

Result<json::value> get_objects(const AdminClient& client, const ObjectKey& key) {
  return client.get(
      "/v1/objects",
      {{"group", key.group}, {"kind", key.kind}, {"namespace", key.ns}, {"name", key.name}});
}

int get(const Flags& flags, const ApplyOptions& options) {
  const auto key = parse_object(options.kind, options.ns, options.name);
  if (!key.ok()) return fail(flags, key.error());
  const auto answer = get_objects(flags.client(), *key);
  if (!answer.ok()) return fail(flags, answer.error());
  const json::array& objects = list_at(*answer, "objects");
  if (flags.output == "yaml") {
    // As files of the mesh have it, so that `osm apply` reads it.
    for (const json::value& object : objects)
      std::cout << (&object == &objects.front() ? "" : "---\n") << flags.written(object);
  } else if (flags.output == "json") {
    std::cout << flags.written(key->name.empty() ? *answer : objects.front());
  } else {
    json::array rows;
    for (const json::value& object : objects) {
      const json::object& metadata = map_at(object, "metadata");
      rows.push_back({{"namespace", text_at(metadata, "namespace")},
                      {"name", text_at(metadata, "name")},
                      {"version", text_at(metadata, "resourceVersion")}});
    }
    std::cout << show_objects(json::object{{"objects", std::move(rows)}});
  }
  return std::cout.flush() ? kDone : kFailed;
}

void add_object(CLI::App& app, ApplyOptions& options, bool required) {
  auto* kind = app.add_option("KIND", options.kind, object_kinds());
  if (required) kind->required();
  app.add_option("NAME", options.name, "[NAMESPACE/]NAME of the object");
  app.add_option("-n,--namespace", options.ns, "Its namespace, if NAME has none");
}

CLI::Option* add_files(CLI::App& app, ApplyOptions& options, const char* what) {
  app.add_flag("--dry-run", options.dry_run, "Only have the controller validate it");
  return app.add_option("-f,--filename", options.files, what)->type_name("FILE|DIR|-");
}

constexpr const char* kEtcdOnly =
    "\n\nFor a mesh in etcd (osm-controller --mesh-etcd). In a directory, edit the files; on "
    "Kubernetes,\nuse kubectl.";

void add_apply(CLI::App& root, Flags& flags) {
  auto options = std::make_shared<ApplyOptions>();
  CLI::App* app = command(root, flags, "apply", "Create and replace objects of a mesh in etcd",
                          "osm apply -f mesh/ --dry-run\n"
                          "  osm apply -f access.yaml\n"
                          "  osm get tt shop/web -o yaml | sed s/GET/POST/ | osm apply -f -");
  app->footer(app->get_footer() +
              "\n\nNothing is written if one object is invalid. An object with "
              "metadata.resourceVersion replaces\nthat version only." +
              kEtcdOnly);
  add_files(*app, *options, "File with objects in YAML or JSON, a directory of such files, or -")
      ->required();
  app->callback([&flags, options] { flags.exit_code = apply(flags, *options); });
}

void add_get(CLI::App& root, Flags& flags) {
  auto options = std::make_shared<ApplyOptions>();
  CLI::App* app =
      command(root, flags, "get", "Objects of the mesh as they were written, of any store",
              "osm get traffictargets\n"
              "  osm get vm web-1 -n shop -o yaml");
  add_object(*app, *options, true);
  app->callback([&flags, options] { flags.exit_code = get(flags, *options); });
}

void add_delete(CLI::App& root, Flags& flags) {
  auto options = std::make_shared<ApplyOptions>();
  CLI::App* app = command(root, flags, "delete", "Delete objects of a mesh in etcd",
                          "osm delete traffictarget shop/web\n"
                          "  osm delete -f access.yaml");
  app->footer(app->get_footer() + kEtcdOnly);
  add_object(*app, *options, false);
  add_files(*app, *options, "File with the objects, a directory of such files, or -");
  app->callback([&flags, options] {
    if (options->files.empty() == options->kind.empty() ||
        options->kind.empty() != options->name.empty())
      throw CLI::RequiredError("-f, or KIND and NAME");
    flags.exit_code = remove(flags, *options);
  });
}

}  // namespace

std::string object_kinds() {
  std::string text;
  for (const Kind& kind : spec::mesh_kinds()) {
    text.append(text.empty() ? "" : ", ").append(kind.name.kind);
    if (!kind.alias.empty()) text.append(" (").append(kind.alias).append(")");
  }
  return text;
}

const Kind* parse_kind(std::string_view text) {
  const std::string wanted = lower(text);
  for (const Kind& kind : spec::mesh_kinds())
    if (wanted == lower(kind.name.kind) || wanted == kind.plural ||
        (!wanted.empty() && wanted == kind.alias))
      return &kind;
  return nullptr;
}

Result<ObjectKey> parse_name(const Kind& kind, bool needs_namespace, const std::string& ns,
                             const std::string& name) {
  ObjectKey object{kind.name, ns, name};
  if (const auto slash = name.find('/'); slash != std::string::npos) {
    object.ns = name.substr(0, slash);
    object.name = name.substr(slash + 1);
    if (!ns.empty() && ns != object.ns)
      return invalid("--namespace says " + ns + ", and '" + name + "' another");
  }
  if (object.name.empty() || object.name.find('/') != std::string::npos)
    return invalid("'" + name + "' is no name; write NAMESPACE/NAME");
  if (kind.scope == spec::Scope::kCluster)
    object.ns.clear();
  else if (needs_namespace && object.ns.empty())
    return invalid("in which namespace is " + object.kind + " '" + name +
                   "'? Write NAMESPACE/NAME, or use -n");
  return object;
}

Result<ObjectKey> parse_object(const std::string& kind, const std::string& ns,
                               const std::string& name) {
  const Kind* known = parse_kind(kind);
  if (!known) return invalid("'" + kind + "' is no kind of the mesh; there are: " + object_kinds());
  if (name.empty())
    return ObjectKey{known->name, known->scope == spec::Scope::kCluster ? "" : ns, ""};
  return parse_name(*known, true, ns, name);
}

Result<json::array> read_documents(const std::vector<std::string>& paths) {
  json::array documents;
  for (const std::string& path : paths) {
    OSM_TRY(const auto files, files_of(path));
    for (const std::string& file : files) {
      OSM_TRY(const std::string text, read_text(file));
      OSM_TRY(const auto objects, spec::read_objects(text, file == "-" ? "standard input" : file));
      for (const auto& object : objects) documents.push_back(*object->document);
    }
  }
  if (documents.empty()) return invalid("there is no object in " + paths.front());
  return documents;
}

json::object document_of(const ObjectKey& key) {
  json::object metadata{{"name", key.name}};
  if (!key.ns.empty()) metadata["namespace"] = key.ns;
  return {{"apiVersion", spec::find_kind(spec::mesh_kinds(), key.group_kind())->api_version()},
          {"kind", key.kind},
          {"metadata", std::move(metadata)}};
}

Result<json::value> get_object(const AdminClient& client, const ObjectKey& key) {
  OSM_TRY(const json::value answer, get_objects(client, key));
  const json::array& objects = list_at(answer, "objects");
  if (objects.empty()) return Error{ErrorCode::kNotFound, key.str() + ": there is no such object"};
  return objects.front();
}

int report_changes(const Flags& flags, const Result<json::value>& answer, bool dry_run) {
  if (!answer.ok()) return fail(flags, answer.error());
  const json::array& objects = list_at(*answer, "objects");
  const auto refused = std::ranges::count_if(
      objects, [](const json::value& object) { return member(object, "error") != nullptr; });
  const int code = refused > 0 ? kFailed : kDone;
  if (flags.for_programs()) {
    std::cout << flags.written(*answer);
    return std::cout.flush() ? code : kFailed;
  }
  for (const json::value& object : objects) {
    const std::string name = printable(text_at(object, "object"));
    for (const json::value& warning : list_at(object, "warnings"))
      if (warning.is_string())
        std::cerr << "osm: warning: " << name << ": " << printable(warning.get_string()) << '\n';
    if (const json::value* const error = member(object, "error")) {
      const std::string message = text_at(*error, "message"), code_text = text_at(*error, "code");
      const bool has_codes = message.ends_with(']');  // one for each fault of the object
      std::cerr << "osm: " << printable(has_codes ? message : message + " [" + code_text + ']')
                << '\n';
    }
    if (!member(object, "error") && (refused == 0 || bool_at(*answer, "written").value_or(false)))
      std::cout << name << ' ' << printable(text_at(object, "result"))
                << (dry_run ? " (dry run)" : "") << '\n';
  }
  if (refused > 0 && !bool_at(*answer, "written").value_or(false))
    std::cerr << "osm: nothing was written: " << refused << " of " << objects.size()
              << " objects are refused\n";
  return std::cout.flush() ? code : kFailed;
}

void add_objects(CLI::App& root, Flags& flags) {
  add_apply(root, flags);
  add_get(root, flags);
  add_delete(root, flags);
  add_edit(root, flags);
}

}  // namespace osm::cli
