#include "spec/object_file.hpp"

#include <boost/json/value.hpp>

#include "spec/decode.hpp"
#include "spec/fields.hpp"
#include "spec/yaml.hpp"

namespace osm::inline v1::spec {
namespace {

namespace json = boost::json;

constexpr std::size_t kMaxNameBytes = 253;  // a DNS name

// Reads the common fields of all objects. Fills in as much as it can, so that problems name the
// object.
class MetadataReader {
 public:
  MetadataReader(Object& object, std::vector<Problem>& problems)
      : object_(object), problems_(problems) {}

  void read(const json::value& document) {
    const auto* root = document.if_object();
    if (root == nullptr) {
      report("", "not an object; a document starts with apiVersion, kind and metadata");
      return;
    }
    object_.api_version = shortened(required_string(*root, "", "apiVersion"), kMaxNameBytes);
    object_.key.kind = shortened(required_string(*root, "", "kind"), kMaxNameBytes);
    if (const auto slash = object_.api_version.find('/'); slash != std::string::npos)
      object_.key.group = object_.api_version.substr(0, slash);
    const auto* metadata = root->if_contains("metadata");
    if (metadata == nullptr || !metadata->is_object()) {
      report("metadata", "required, with at least a name");
      return;
    }
    const json::object& fields = metadata->get_object();
    object_.key.name = name(fields, "name");
    if (fields.contains("namespace")) object_.key.ns = name(fields, "namespace");
    object_.labels = string_map(fields, "labels");
    object_.annotations = string_map(fields, "annotations");
  }

 private:
  void report(const std::string& field, std::string cause,
              ErrorCode code = ErrorCode::kInvalidField) {
    if (problems_.size() >= kMaxProblemsPerObject) return;
    problems_.push_back({code, {}, "", 0, shortened(field, kMaxFieldBytes), std::move(cause)});
  }

  std::string required_string(const json::object& fields, std::string_view parent,
                              std::string_view name) {
    const auto* value = fields.if_contains(name);
    const auto* text = value == nullptr ? nullptr : value->if_string();
    if (text == nullptr || text->empty()) {
      report(field_path(parent, name), value == nullptr ? "required" : "must be a string");
      return {};
    }
    return {text->data(), text->size()};
  }

  // The decoders check the characters; a name that is longer than any valid one is refused here.
  std::string name(const json::object& fields, std::string_view field) {
    std::string text = required_string(fields, "metadata", field);
    if (text.size() <= kMaxNameBytes) return text;
    report(field_path("metadata", field),
           "longer than " + std::to_string(kMaxNameBytes) + " bytes");
    return shortened(text, kMaxNameBytes);
  }

  std::map<std::string, std::string> string_map(const json::object& fields, std::string_view name) {
    std::map<std::string, std::string> out;
    const auto* value = fields.if_contains(name);
    if (value == nullptr || value->is_null()) return out;
    const std::string path = field_path("metadata", name);
    const auto* map = value->if_object();
    if (map == nullptr) {
      report(path, "must be a map of strings");
      return out;
    }
    if (map->size() > kMaxEntries) {
      report(
          path,
          "has " + std::to_string(map->size()) + " entries, at most " + std::to_string(kMaxEntries),
          ErrorCode::kTooLarge);
      return out;
    }
    for (const auto& [key, item] : *map) {
      if (const auto* text = item.if_string()) {
        out.emplace(key, std::string(text->data(), text->size()));
      } else {
        report(field_path(path, std::string_view(key)), "must be a string; quote it");
      }
    }
    return out;
  }

  Object& object_;
  std::vector<Problem>& problems_;
};

void read_object(YamlDocument document, const std::string& path, const Kinds& kinds,
                 ObjectFile& file) {
  auto object = std::make_shared<Object>();
  object->source = {path, document.line, std::move(document.lines)};
  std::vector<Problem> problems;
  MetadataReader(*object, problems).read(document.value);
  if (problems.empty()) {
    if (auto cause = why_unknown(*object, kinds))
      problems.push_back({ErrorCode::kUnknownKind, {}, "", 0, "kind", *std::move(cause)});
  }
  for (Problem& problem : problems) {
    problem.object = object->key;
    problem.path = path;
    problem.line = object->source.line_of(problem.field);
    file.problems.push_back(std::move(problem));
  }
  if (!problems.empty()) return;
  object->document = std::make_shared<const json::value>(std::move(document.value));
  file.objects.push_back(std::move(object));
}

}  // namespace

ObjectFile read_object_file(std::string_view text, const std::string& path, const Kinds& kinds) {
  ObjectFile file;
  for (YamlResult& result : parse_yaml(text)) {
    if (const auto* error = std::get_if<YamlError>(&result)) {
      file.broken.push_back({error->code, {}, path, error->line, "", error->cause});
    } else {
      read_object(std::get<YamlDocument>(std::move(result)), path, kinds, file);
    }
  }
  return file;
}

Result<std::vector<std::shared_ptr<const Object>>> read_objects(std::string_view text,
                                                                const std::string& path,
                                                                const Kinds& kinds) {
  ObjectFile file = read_object_file(text, path, kinds);
  for (const auto* problems : {&file.broken, &file.problems})
    if (!problems->empty()) return Error{problems->front().code, problems->front().text()};
  return std::move(file.objects);
}

}  // namespace osm::inline v1::spec
