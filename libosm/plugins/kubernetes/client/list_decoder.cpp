#include "kubernetes/client/list_decoder.hpp"

#include <utility>

#include "base/json.hpp"

namespace osm::inline v1::kubernetes {
namespace {

constexpr std::size_t kItemDepth = 2;  // of the list and its member "items"

bool is_space(char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n'; }

}  // namespace

Status ListDecoder::feed(std::string_view data, const OnItem& on_item) {
  for (std::size_t at = 0; at < data.size(); ++at) {
    const char c = data[at];
    if (place_ == Place::kAround) {
      OSM_TRY(around(c));
      continue;
    }
    if (place_ == Place::kBetweenItems) {
      OSM_TRY(const bool begins, between_items(c));
      if (!begins) continue;
    }
    const std::size_t begin = at;
    bool ends = false;
    while (!ends && at < data.size()) ends = in_item(data[at++]);
    --at;  // the last byte that was read
    if (item_.size() + at + 1 - begin > max_bytes_)
      return Error{ErrorCode::kTooLarge,
                   what_ + ": an item is larger than " + std::to_string(max_bytes_) + " bytes"};
    item_.append(data.substr(begin, at + 1 - begin));
    if (!ends) return {};
    OSM_TRY(boost::json::object item, parse_json_object(item_, what_ + ": an item of the answer"));
    item_.clear();
    place_ = Place::kBetweenItems;
    if (!on_item(std::move(item))) return {};
  }
  return {};
}

Result<boost::json::object> ListDecoder::finish() const {
  if (place_ != Place::kAround) return malformed();
  return parse_json_object(around_, what_ + ": the server's answer");
}

Status ListDecoder::around(char c) {
  if (around_.size() == max_bytes_)
    return Error{ErrorCode::kTooLarge, what_ + ": what is around the items is larger than " +
                                           std::to_string(max_bytes_) + " bytes"};
  around_ += c;
  const bool within = text_;
  if (in_text(c)) {
    if (!within) text_begin_ = around_.size();
  } else if (within) {
    if (depth_ == 1) last_text_ = around_.substr(text_begin_, around_.size() - 1 - text_begin_);
  } else if (c == ':' && depth_ == 1) {
    name_ = last_text_;
  } else if (c == '{' || c == '[') {
    ++depth_;
    if (c == '[' && depth_ == kItemDepth && name_ == "items") place_ = Place::kBetweenItems;
  } else if (c == '}' || c == ']') {
    if (depth_ == 0) return malformed();
    --depth_;
  }
  return {};
}

Result<bool> ListDecoder::between_items(char c) {
  if (is_space(c) || c == ',') return false;
  if (c == '{') {
    place_ = Place::kItem;
    return true;
  }
  if (c != ']') return malformed();
  around_ += c;
  --depth_;
  place_ = Place::kAround;
  return false;
}

bool ListDecoder::in_item(char c) {
  const bool within = text_;
  if (in_text(c) || within) return false;
  if (c == '{' || c == '[') ++depth_;
  if (c == '}' || c == ']') --depth_;
  return depth_ == kItemDepth;
}

bool ListDecoder::in_text(char c) {
  if (!text_) return text_ = c == '"';
  if (escaped_) {
    escaped_ = false;
  } else if (c == '\\') {
    escaped_ = true;
  } else if (c == '"') {
    text_ = false;
  }
  return text_;
}

Error ListDecoder::malformed() const {
  return {ErrorCode::kInvalidSyntax, what_ + ": what the server sent is no list"};
}

}  // namespace osm::inline v1::kubernetes
