#include "spec/fields.hpp"

#include <algorithm>

#include "base/json.hpp"
#include "spec/yaml.hpp"

namespace osm::inline v1::spec {
namespace {

constexpr std::size_t kMaxCauseBytes = 1024;

std::string join(std::initializer_list<std::string_view> names) {
  std::string out;
  for (std::string_view name : names) out.append(out.empty() ? "" : ", ").append(name);
  return out;
}

void refuse_length(const Field& field, std::size_t entries) {
  field.refuse("has " + std::to_string(entries) + " entries, at most " +
                   std::to_string(kMaxEntries) + "; split the object",
               ErrorCode::kTooLarge);
}

}  // namespace

void Findings::refuse(std::string field, std::string cause, ErrorCode code) {
  valid_ = false;
  add(code, std::move(field), std::move(cause));
}

void Findings::note(std::string field, std::string cause, ErrorCode code) {
  add(code, std::move(field), std::move(cause));
}

void Findings::add(ErrorCode code, std::string field, std::string cause) {
  if (problems_.size() > kMaxProblemsPerObject) return;
  if (problems_.size() == kMaxProblemsPerObject) {
    problems_.push_back({code, {}, "", 0, "", "more is wrong than is listed here"});
    return;
  }
  // Both quote user-written keys and values.
  problems_.push_back(
      {code, {}, "", 0, shortened(field, kMaxFieldBytes), shortened(cause, kMaxCauseBytes)});
}

std::vector<Problem> Findings::take(const ObjectKey& object) && {
  for (Problem& problem : problems_) problem.object = object;
  return std::move(problems_);
}

void Field::refuse(std::string cause, ErrorCode code) const {
  findings_->refuse(path_, std::move(cause), code);
}

void Field::note(std::string cause, ErrorCode code) const {
  findings_->note(path_, std::move(cause), code);
}

Field Field::operator[](std::string_view name) const {
  const auto* map = value_ == nullptr ? nullptr : value_->if_object();
  return {map == nullptr ? nullptr : map->if_contains(name), field_path(path_, name), *findings_};
}

std::optional<std::string> Field::text() const {
  if (!present()) return std::nullopt;
  if (const auto* text = value_->if_string()) return std::string(text->data(), text->size());
  refuse("must be a string");
  return std::nullopt;
}

std::optional<bool> Field::boolean() const {
  if (!present()) return std::nullopt;
  if (const auto* flag = value_->if_bool()) return *flag;
  refuse("must be true or false");
  return std::nullopt;
}

std::optional<std::int64_t> Field::integer(std::int64_t least, std::int64_t most) const {
  if (!present()) return std::nullopt;
  const auto number = whole_number(*value_);
  if (number && *number >= least && *number <= most) return *number;
  refuse("must be a whole number from " + std::to_string(least) + " to " + std::to_string(most));
  return std::nullopt;
}

std::vector<Field> Field::list() const {
  std::vector<Field> out;
  if (!present()) return out;
  const auto* items = value_->if_array();
  if (items == nullptr) {
    refuse("must be a list");
    return out;
  }
  if (items->size() > kMaxEntries) {
    refuse_length(*this, items->size());
    return out;
  }
  for (std::size_t i = 0; i < items->size(); ++i)
    out.emplace_back(&(*items)[i], field_path(path_, i), *findings_);
  return out;
}

std::vector<std::pair<std::string, Field>> Field::members() const {
  std::vector<std::pair<std::string, Field>> out;
  if (!present()) return out;
  const auto* map = value_->if_object();
  if (map == nullptr) {
    refuse("must be a map");
    return out;
  }
  if (map->size() > kMaxEntries) {
    refuse_length(*this, map->size());
    return out;
  }
  for (const auto& [key, item] : *map)
    out.emplace_back(std::string(key),
                     Field(&item, field_path(path_, std::string_view(key)), *findings_));
  return out;
}

std::map<std::string, std::string> Field::text_map() const {
  std::map<std::string, std::string> out;
  for (const auto& [key, field] : members()) {
    if (auto text = field.text()) {
      out.emplace(key, *std::move(text));
    } else if (!field.present()) {
      field.refuse("must be a string");
    }
  }
  return out;
}

std::vector<std::string> Field::text_list() const {
  std::vector<std::string> out;
  for (const Field& field : list()) out.push_back(field.required_text());
  return out;
}

std::string Field::required_text() const {
  if (!present()) {
    refuse("required");
    return {};
  }
  auto value = text();
  if (value && value->empty()) refuse("must not be empty");
  return value.value_or("");
}

std::vector<Field> Field::required_list() const {
  if (!present()) refuse("required");
  return list();
}

bool Field::required_map() const {
  if (present() && value_->is_object()) return true;
  refuse(present() ? "must be a map" : "required");
  return false;
}

void Field::only(std::initializer_list<std::string_view> names) const {
  const auto* map = value_ == nullptr ? nullptr : value_->if_object();
  if (map == nullptr) return;
  for (const auto& [key, item] : *map) {
    if (std::find(names.begin(), names.end(), std::string_view(key)) != names.end()) continue;
    (*this)[key].refuse("no such field; known here: " + join(names));
  }
}

}  // namespace osm::inline v1::spec
