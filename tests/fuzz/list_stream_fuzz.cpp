// The bytes of a list's response, compressed or not → items: it does not matter in which pieces
// they come, and damage is refused within bounds.
//
//   input: '0' plain, '1' compressed; '1' to '9', the size of a piece; a line feed; then the bytes.
#include <boost/json.hpp>
#include <vector>

#include "fuzz/fuzz.hpp"
#include "kubernetes/client/list_decoder.hpp"
#include "net/gunzip.hpp"

using namespace osm;
using namespace osm::fuzz;

namespace {

namespace json = boost::json;

constexpr std::size_t kMaxItem = 4096;
constexpr std::size_t kMaxContent = 1024 * 1024;

struct Seen {
  std::vector<json::object> items;
  Status end;
  Result<json::object> around = json::object();
};

Seen decode(std::string_view bytes, std::size_t piece, bool compressed) {
  Seen seen;
  kubernetes::ListDecoder decoder("list pods", kMaxItem);
  net::Gunzip gunzip(kMaxContent);
  std::size_t content = 0;
  const auto read = [&](std::string_view text) {
    content += text.size();
    seen.end = decoder.feed(text, [&](json::object item) {
      seen.items.push_back(std::move(item));
      return true;
    });
    return seen.end.ok();
  };
  for (std::size_t at = 0; at < bytes.size() && seen.end.ok(); at += piece) {
    const std::string_view part = bytes.substr(at, piece);
    if (!compressed) {
      read(part);
    } else if (Status fed = gunzip.feed(part, read); !fed.ok()) {
      seen.end = std::move(fed);
    }
  }
  if (seen.end.ok() && compressed) seen.end = gunzip.finish();
  require(content <= kMaxContent, "no more is decompressed than may be");
  if (seen.end.ok()) seen.around = decoder.finish();
  return seen;
}

void run(Choices choices) {
  const bool compressed = choices.below(2) == 1;
  const std::size_t piece = choices.below(9) + 1;
  choices.line();
  const std::string_view bytes = choices.rest();
  const Seen whole = decode(bytes, bytes.size() + 1, compressed);
  const Seen parts = decode(bytes, piece, compressed);
  require(whole.items == parts.items, "items do not depend on the pieces that they come in");
  require(whole.end.ok() == parts.end.ok(), "the end does not depend on the pieces");
  require(whole.around.ok() == parts.around.ok(), "what is around does not depend on the pieces");
  if (whole.end.ok() && whole.around.ok()) {
    require(*whole.around == *parts.around, "what is around does not depend on the pieces");
  }
}

const bool kAdded = add("list_stream", [](std::string_view input) { run(Choices(input)); });

}  // namespace
