#include "spec/document_builder.hpp"

#include <utility>

namespace osm::inline v1::spec {
namespace {

namespace json = boost::json;

constexpr std::size_t kMaxPathBytes = 512;  // longer paths get their ancestor's line

}  // namespace

bool DocumentBuilder::at_key() const {
  return !frames_.empty() && frames_.back().value.is_object() && !frames_.back().key;
}

void DocumentBuilder::key(int line, std::string_view text) {
  Frame& frame = frames_.back();
  if (frame.value.get_object().contains(text))
    throw Refused{{ErrorCode::kInvalidSyntax, line,
                   "duplicate key \"" + shortened(text, kMaxPathBytes) + '"'}};
  frame.key = std::string(text);
  frame.key_line = line;
}

const json::value& DocumentBuilder::add(int line, json::value value) {
  count(line);
  remember_line(path_of_next(), line_of_next(line));
  return store(std::move(value));
}

void DocumentBuilder::open(int line, json::value value) {
  count(line);
  check_depth(1, line);
  Frame frame{std::move(value), path_of_next(), std::nullopt, 0};
  remember_line(frame.path, line_of_next(line));
  frames_.push_back(std::move(frame));
}

const json::value& DocumentBuilder::close() {
  Frame frame = std::move(frames_.back());
  frames_.pop_back();
  return store(std::move(frame.value));
}

void DocumentBuilder::spend(std::size_t nodes, int line) {
  nodes_ += nodes;
  if (nodes_ > max_nodes_)
    throw Refused{{ErrorCode::kTooLarge, line,
                   "more than " + std::to_string(max_nodes_) +
                       " values, aliases expanded; split the document"}};
}

void DocumentBuilder::check_depth(std::size_t depth, int line) const {
  if (frames_.size() + depth > kMaxDepth)
    throw Refused{{ErrorCode::kTooLarge, line,
                   "nested more than " + std::to_string(kMaxDepth) + " levels deep"}};
}

std::string DocumentBuilder::path_of_next() const {
  if (frames_.empty()) return {};
  const Frame& frame = frames_.back();
  if (frame.path.size() > kMaxPathBytes) return frame.path;
  std::string path = frame.key ? field_path(frame.path, *frame.key)
                               : field_path(frame.path, frame.value.get_array().size());
  // A long key would be copied into the path of everything below it.
  if (path.size() > kMaxPathBytes) path.resize(kMaxPathBytes + 1);
  return path;
}

// The line of a field is that of its key, not that of its value.
int DocumentBuilder::line_of_next(int line) const {
  return !frames_.empty() && frames_.back().key ? frames_.back().key_line : line;
}

void DocumentBuilder::remember_line(const std::string& path, int line) {
  if (!path.empty() && path.size() <= kMaxPathBytes) lines_.emplace(path, line);
}

void DocumentBuilder::count(int line) {
  spend(1, line);
  if (line_ == 0) line_ = line;
}

const json::value& DocumentBuilder::store(json::value value) {
  if (frames_.empty()) return root_ = std::move(value);
  Frame& frame = frames_.back();
  if (!frame.key) {
    auto& list = frame.value.get_array();
    list.push_back(std::move(value));
    return list.back();
  }
  const auto [at, added] = frame.value.get_object().emplace(*frame.key, std::move(value));
  frame.key.reset();
  return at->value();
}

}  // namespace osm::inline v1::spec
