#include "spec/object_file.hpp"

#include <boost/json/value.hpp>

#include "base/json.hpp"
#include "base/numbers.hpp"
#include "spec/decode.hpp"
#include "spec/fields.hpp"
#include "spec/yaml.hpp"

namespace osm::inline v1::spec {
namespace {

namespace json = boost::json;

constexpr std::size_t kMaxNameBytes = 253;  // a DNS name

void read_common(const json::value& document, Object& object, Findings& findings) {
  const Field root(&document, "", findings);
  if (!document.is_object())
    return root.refuse("not an object; a document starts with apiVersion, kind and metadata");
  object.api_version = shortened(root["apiVersion"].required_text(), kMaxNameBytes);
  object.key.kind = shortened(root["kind"].required_text(), kMaxNameBytes);
  if (const auto slash = object.api_version.find('/'); slash != std::string::npos)
    object.key.group = object.api_version.substr(0, slash);
  const Field metadata = root["metadata"];
  if (!metadata.present() || !metadata.value()->is_object())
    return metadata.refuse("required, with at least a name");
  // The decoders check the characters; a name that is longer than any valid one is refused here.
  const auto name_of = [](const Field& field) {
    const std::string name = field.required_text();
    if (name.size() > kMaxNameBytes)
      field.refuse("longer than " + std::to_string(kMaxNameBytes) + " bytes");
    return shortened(name, kMaxNameBytes);
  };
  object.key.name = name_of(metadata["name"]);
  if (const Field ns = metadata["namespace"]; ns.value() != nullptr) object.key.ns = name_of(ns);
  object.labels = metadata["labels"].text_map();
  object.annotations = metadata["annotations"].text_map();
}

// Nothing is known about a kind that `kinds` does not have.
void check_namespace(const Object& object, const Kinds& kinds, Findings& findings) {
  const Kind* const kind = find_kind(kinds, object.key.group_kind());
  if (kind != nullptr && kind->scope != Scope::kCluster && object.key.ns.empty())
    findings.refuse("metadata.namespace",
                    "required: the mesh has no default namespace; write the one that the object "
                    "belongs to");
}

void read_object(YamlDocument document, const std::string& path, const Kinds& kinds,
                 ObjectFile& file) {
  auto object = std::make_shared<Object>();
  object->source = {path, document.line, std::move(document.lines)};
  Findings findings;
  read_common(document.value, *object, findings);
  if (findings.valid()) {
    if (auto cause = why_unknown(*object, kinds))
      findings.refuse("kind", *std::move(cause), ErrorCode::kUnknownKind);
    else
      check_namespace(*object, kinds, findings);
  }
  const bool valid = findings.valid();
  for (Problem& problem : std::move(findings).take(object->key)) {
    problem.locate(object->source);
    file.problems.push_back(std::move(problem));
  }
  if (!valid) return;
  object->document = std::make_shared<const json::value>(std::move(document.value));
  file.objects.push_back(std::move(object));
}

void add_items(YamlDocument document, std::vector<YamlDocument>& out) {
  auto* map = document.value.if_object();
  auto* items = map == nullptr ? nullptr : map->if_contains("items");
  if (items == nullptr || !items->is_array() || !text_at(*map, "kind").ends_with("List")) {
    out.push_back(std::move(document));
    return;
  }
  auto& list = items->get_array();
  std::vector<YamlDocument> inside(list.size());
  for (std::size_t i = 0; i < list.size(); ++i) inside[i] = {std::move(list[i]), document.line, {}};
  // "items[3].spec.rules" is the field spec.rules of the fourth object.
  for (const auto& [field, line] : document.lines) {
    if (!field.starts_with("items[")) continue;
    const auto end = field.find(']');
    const auto place = number_of<std::size_t>(std::string_view(field).substr(6, end - 6));
    if (!place || *place >= inside.size()) continue;
    if (end + 1 == field.size()) inside[*place].line = line;
    if (end + 2 < field.size()) inside[*place].lines.emplace(field.substr(end + 2), line);
  }
  for (YamlDocument& item : inside) add_items(std::move(item), out);
}

}  // namespace

std::vector<YamlDocument> items_of(YamlDocument document) {
  std::vector<YamlDocument> out;
  add_items(std::move(document), out);
  return out;
}

std::vector<Problem> read_metadata(const json::value& document, Object& object,
                                   const Kinds& kinds) {
  Findings findings;
  read_common(document, object, findings);
  if (findings.valid()) check_namespace(object, kinds, findings);
  return std::move(findings).take(object.key);
}

ObjectFile read_object_file(std::string_view text, const std::string& path, const Kinds& kinds) {
  ObjectFile file;
  for (YamlResult& result : parse_yaml(text)) {
    if (const auto* error = std::get_if<YamlError>(&result)) {
      file.broken.push_back({error->code, {}, path, error->line, "", error->cause});
    } else {
      for (YamlDocument& document : items_of(std::get<YamlDocument>(std::move(result))))
        read_object(std::move(document), path, kinds, file);
    }
  }
  return file;
}

Result<std::vector<std::shared_ptr<const Object>>> read_objects(std::string_view text,
                                                                const std::string& path,
                                                                const Kinds& kinds) {
  ObjectFile file = read_object_file(text, path, kinds);
  for (const auto* problems : {&file.broken, &file.problems})
    if (!problems->empty()) return problems->front().error();
  return std::move(file.objects);
}

}  // namespace osm::inline v1::spec
