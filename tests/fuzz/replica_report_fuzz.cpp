// Reports that replicas tell each other: a text reads back as itself and fits on the board, and an
// object counts as applied only if the report says so for each proxy.
//
//   input: the text of a report. "@digests" stands for the digests of the mesh of the test,
//   "@proxy" for the mark of its proxy, and "@records" for its record, with the second generation.
#include "control_plane/replica_report.hpp"

#include <map>
#include <string>

#include "base/json.hpp"
#include "base/utf8.hpp"
#include "fuzz/fuzz.hpp"
#include "osm/runtime/system.hpp"

using namespace osm;
using namespace osm::fuzz;

namespace {

using namespace control_plane;

const model::ProxyKey kProxy{"shop", ProxyId("00000000-0000-4000-8000-000000000001")};
const ObjectKey kMachine{kinds::kVirtualMachine, "shop", "web-1"};

std::shared_ptr<const model::MeshSnapshot> mesh() {
  auto snapshot = std::make_shared<model::MeshSnapshot>();
  snapshot->generation = 3;
  auto entry = std::make_shared<model::WorkloadEntry>();
  entry->proxy = kProxy;
  entry->workload.name = {"shop", "web-1"};
  entry->workload.proxy_id = kProxy.id;
  snapshot->workloads = Table<model::WorkloadEntry>({entry});
  return snapshot;
}

void replace(std::string& text, std::string_view word, const std::string& with) {
  for (auto at = text.find(word); at != text.npos; at = text.find(word, at + with.size()))
    text.replace(at, word.size(), with);
}

// A member as the text of a report of the mesh has it.
std::string written_text(std::string_view member) {
  ReplicaReport report{.id = "a", .generation = 1};
  report.digests = *mesh()->digests;
  ProxyLine& line = report.proxies[mark_of(kProxy)];
  line.presence = ProxyLine::Presence::kConnected;
  line.generation = 1;
  return text_at(*parse_json_object(text_of(report), ""), member);
}

void check_sum(const ReplicaReport& report) {
  const catalog::ObjectState state{.snapshot = mesh(),
                                   .generation = 3,
                                   .present = true,
                                   .entries = {WorkloadName{"shop", "web-1"}}};
  const OtherReplicas others{
      .known = true,
      .replicas = {
          {.name = "b", .report = std::make_shared<const ReplicaReport>(report), .heard = 3}}};
  std::map<model::ProxyKey, WorkloadName> waited_for{{kProxy, {"shop", "web-1"}}};
  ObjectStatus status;
  const std::size_t refused = add_others(others, known_as(kMachine), state, waited_for, status);
  require(status.replicas == 2, "each replica counts once");
  require(status.applied + status.lagging.size() == status.concerned &&
              status.concerned + waited_for.size() == 1 && refused <= status.lagging.size(),
          "a proxy is applied, lags, or is not connected");
  require(status.applied == 0 || status.replicas_behind.empty(),
          "a replica that has not read an object has not applied it");
  SystemClock clock;
  for_each_elsewhere(others, *mesh(), [&](const auto& entry, const auto& line, const auto& other) {
    const Proxy proxy = proxy_of(entry, line, other, CommonName("web-1.shop"), clock);
    require(proxy.id == kProxy.id && proxy.replica == "b", "a proxy is told with its replica");
  });
}

void run(std::string text) {
  replace(text, "@digests", written_text("digests"));
  replace(text, "@records", written_text("proxies"));
  replace(text, "@proxy", std::to_string(mark_of(kProxy)));
  const auto report = parse_report(text);
  if (!report) return;
  const std::string written = text_of(*report);
  require(is_utf8(written), "a text is UTF-8", written);
  require(written.size() <= kMaxReportBytes || report->changed.size() > 1'000,
          "a text fits on the board");
  const auto again = parse_report(written);
  require(again.has_value(), "a written text can be read", written);
  require(text_of(*again) == written, "a text is written as it was read", written);
  if (report->generation > 0 && !report->left) check_sum(*report);
}

const bool kAdded = add("replica_report", [](std::string_view input) { run(std::string(input)); });

}  // namespace
