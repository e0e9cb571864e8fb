#include "spec/fields.hpp"

#include <algorithm>
#include <set>
#include <utility>

#include "base/json.hpp"
#include "spec/yaml.hpp"

namespace osm::inline v1::spec {
namespace {

constexpr std::size_t kMaxCauseBytes = 1024;

// Refuses the object for a list or map that is too long.
bool may_read(const Field& field, std::size_t entries) {
  if (entries <= kMaxEntries) return true;
  field.refuse_object("has " + std::to_string(entries) + " entries, at most " +
                          std::to_string(kMaxEntries) + "; split the object",
                      ErrorCode::kTooLarge);
  return false;
}

}  // namespace

std::string joined(std::span<const std::string_view> words) {
  std::string out;
  for (const std::string_view word : words) out.append(out.empty() ? "" : ", ").append(word);
  return out;
}

void Findings::refuse(std::string field, std::string cause, ErrorCode code) {
  valid_ = false;
  add(code, std::move(field), std::move(cause), what_);
}

void Findings::refuse_object(std::string field, std::string cause, ErrorCode code) {
  object_refused_ = true;
  add(code, std::move(field), std::move(cause), "");
}

void Findings::note(std::string field, std::string cause, ErrorCode code) {
  add(code, std::move(field), std::move(cause), "");
}

void Findings::add(ErrorCode code, std::string field, std::string cause,
                   std::string_view left_out) {
  if (found_.size() > kMaxProblemsPerObject) return;
  if (found_.size() == kMaxProblemsPerObject) {
    found_.push_back({{code, {}, "", 0, "", "more is wrong than is listed here"}, ""});
    return;
  }
  // Both quote user-written keys and values.
  found_.push_back(
      {{code, {}, "", 0, shortened(field, kMaxFieldBytes), shortened(cause, kMaxCauseBytes)},
       left_out});
}

Findings::Element::Element(Findings& findings, std::string_view what)
    : findings_(findings),
      outer_valid_(std::exchange(findings.valid_, true)),
      outer_what_(std::exchange(findings.what_, what)),
      first_(findings.found_.size()) {}

Findings::Element::~Element() {
  // The elements of an invalid one are left out with it.
  for (std::size_t i = first_; !findings_.valid_ && i < findings_.found_.size(); ++i)
    if (auto& left_out = findings_.found_[i].left_out; !left_out.empty())
      left_out = findings_.what_;
  findings_.valid_ = outer_valid_;
  findings_.what_ = outer_what_;
}

std::vector<Problem> Findings::take(const ObjectKey& object) && {
  std::vector<Problem> problems;
  for (auto& [problem, left_out] : found_) {
    problem.object = object;
    if (valid() && !left_out.empty())
      problem.cause.append("; only this ")
          .append(left_out)
          .append(" is left out of a stored object");
    problems.push_back(std::move(problem));
  }
  return problems;
}

void Field::refuse(std::string cause, ErrorCode code) const {
  findings_->refuse(path_, std::move(cause), code);
}

void Field::refuse_object(std::string cause, ErrorCode code) const {
  findings_->refuse_object(path_, std::move(cause), code);
}

void Field::leave_out(std::string_view what, std::string cause) const {
  const Findings::Element element(*findings_, what);
  refuse(std::move(cause));
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
  const auto* items = present() ? value_->if_array() : nullptr;
  if (items == nullptr) {
    if (present()) refuse("must be a list");
  } else if (may_read(*this, items->size())) {
    for (std::size_t i = 0; i < items->size(); ++i)
      out.emplace_back(&(*items)[i], field_path(path_, i), *findings_);
  }
  return out;
}

std::vector<std::pair<std::string, Field>> Field::members() const {
  std::vector<std::pair<std::string, Field>> out;
  const auto* map = present() ? value_->if_object() : nullptr;
  if (map == nullptr) {
    if (present()) refuse("must be a map");
  } else if (may_read(*this, map->size())) {
    for (const auto& [key, item] : *map)
      out.emplace_back(std::string(key),
                       Field(&item, field_path(path_, std::string_view(key)), *findings_));
  }
  return out;
}

std::map<std::string, std::string> Field::text_map() const {
  std::map<std::string, std::string> out;
  for (const auto& [key, field] : members()) {
    if (const auto* text = field.value()->if_string()) {
      out.emplace(key, std::string(text->data(), text->size()));
    } else {
      field.refuse("must be a string; quote it");
    }
  }
  return out;
}

std::string Field::required_text() const {
  const auto value = required().text();
  if (value && value->empty()) refuse("must not be empty");
  return value.value_or("");
}

const Field& Field::required() const {
  if (!present()) refuse("required");
  return *this;
}

bool Field::required_map(std::initializer_list<std::string_view> names) const {
  const auto* map = required().present() ? value_->if_object() : nullptr;
  if (map == nullptr) {
    if (present()) refuse("must be a map");
    return false;
  }
  for (const auto& [key, item] : *map)
    if (names.size() > 0 &&
        std::find(names.begin(), names.end(), std::string_view(key)) == names.end())
      (*this)[key].refuse("no such field; known here: " + joined(names));
  return true;
}

std::optional<Port> Field::port() const {
  const auto number = integer(1, 65535);
  return number ? std::optional(static_cast<Port>(*number)) : std::nullopt;
}

std::optional<Port> Field::listed_port() const {
  if (!present()) refuse("must be a port number");
  return port();
}

std::vector<Port> Field::ports() const {
  std::set<Port> ports;
  for (const Field& field : list())
    if (const auto port = field.listed_port()) ports.insert(*port);
  return {ports.begin(), ports.end()};
}

}  // namespace osm::inline v1::spec
