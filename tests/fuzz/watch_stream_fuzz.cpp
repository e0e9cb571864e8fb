// The bytes of a watch → events → objects: it does not matter in which pieces they come, and an
// object keeps nothing that changes without meaning.
//
//   input: '0' Pods, '1' EndpointSlices, '2' Services, '3' metadata of Secrets; '1' to '9', the
//   size of a piece; a line feed; then the bytes of the response.
#include <boost/json.hpp>
#include <vector>

#include "base/json.hpp"
#include "fuzz/fuzz.hpp"
#include "kubernetes/client/reduce.hpp"
#include "kubernetes/client/resources.hpp"
#include "kubernetes/client/watch_decoder.hpp"

using namespace osm;
using namespace osm::fuzz;

namespace {

namespace json = boost::json;
using namespace kubernetes;

constexpr std::size_t kMaxLine = 4096;
constexpr std::size_t kMaxError = 3000;
constexpr const char* kServer = "https://10.96.0.1:443";

struct Seen {
  std::vector<std::pair<WatchEventType, json::object>> events;
  Status end;
};

Seen decode(std::string_view bytes, std::size_t piece) {
  Seen seen;
  WatchDecoder decoder("watch Pod", kMaxLine);
  const auto note = [&](WatchEventType type, json::object object) {
    seen.events.emplace_back(type, std::move(object));
    return true;
  };
  for (std::size_t at = 0; at < bytes.size() && seen.end.ok(); at += piece)
    seen.end = decoder.feed(bytes.substr(at, piece), note);
  return seen;
}

void keep(const Resource& resource, const json::object& object) {
  const bool metadata_only = resource == kSecrets;
  const auto kept = metadata_only ? reduce_to_metadata(resource, object, kServer)
                                  : reduce(resource, object, kServer);
  const json::object& metadata = map_at(object, "metadata");
  require(kept->key == ObjectKey{resource.group_kind(), text_at(metadata, "namespace"),
                                 text_at(metadata, "name")},
          "an object keeps its name", json::serialize(object));
  const json::object& document = kept->document->as_object();
  const json::object& left = map_at(document, "metadata");
  require(!left.contains("managedFields"), "managedFields are dropped");
  if (metadata_only) {
    require(document.size() <= 1 && !document.contains("data"), "no content of a Secret is kept");
    return;
  }
  require(!left.contains("resourceVersion"), "a version alone is no change");
  if (metadata.if_contains("resourceVersion") == nullptr) return;
  json::object newer = object;
  newer["metadata"].as_object()["resourceVersion"] = "another";
  newer["metadata"].as_object()["managedFields"] = json::array{1};
  require(*reduce(resource, newer, kServer)->document == *kept->document,
          "an object that differs in its version alone is the same");
  require(*reduce(resource, document, kServer)->document == *kept->document,
          "nothing is dropped from an object that was reduced");
}

void run(Choices choices) {
  constexpr Resource kResources[] = {kPods, kEndpointSlices, kServices, kSecrets};
  const Resource& resource = kResources[choices.below(4)];
  const std::size_t piece = choices.below(9) + 1;
  choices.line();
  const std::string_view bytes = choices.rest();
  const Seen whole = decode(bytes, bytes.size() + 1);
  const Seen parts = decode(bytes, piece);
  require(whole.events == parts.events, "events do not depend on the pieces that they come in");
  require(whole.end.ok() == parts.end.ok(), "the end does not depend on the pieces");
  if (!whole.end.ok()) {
    require(whole.end.error() == parts.end.error(), "the error does not depend on the pieces");
    require(whole.end.error().message.size() <= kMaxError, "an error is bounded",
            whole.end.error().message);
  }
  for (const auto& [type, object] : whole.events) keep(resource, object);
}

const bool kAdded = add("watch_stream", [](std::string_view input) { run(Choices(input)); });

}  // namespace
