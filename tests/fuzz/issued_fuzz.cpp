// The record of issued certificates that replicas share, and the annotation of a pod's Secret →
// certificates of proxies that have not ended, a bounded number; a damaged record is not replaced.
//
//   input: the record, and the annotation.
#include <boost/json.hpp>

#include "base/json.hpp"
#include "fuzz/fuzz.hpp"
#include "fuzz/quiet.hpp"
#include "osm/certificate/issued_certificates.hpp"
#include "osm/inject/injector.hpp"
#include "osm/runtime/system.hpp"
#include "osm/testing/manual_clock.hpp"
#include "osm/testing/manual_executor.hpp"

using namespace osm;
using namespace osm::fuzz;

namespace {

class IssuedText final : public TextRecord {
 public:
  explicit IssuedText(std::string_view text) : text_(text) {}
  std::string name() const override { return "the record"; }
  Result<Text> load() override { return Text{text_, "1"}; }
  Status store(const Text& next) override {
    text_ = next.text;
    stored = true;
    return {};
  }

  bool stored = false;

 private:
  std::string text_;
};

void run(std::string_view input) {
  testing::ManualClock clock;
  testing::ManualExecutor executor(clock);
  RandomRng rng(1);
  QuietLog log;
  QuietMetrics metrics;
  IssuedText record(input);
  const auto issued = make_issued_certificates(
      {.record = record, .runtime = {executor, executor, clock, rng, log, metrics}});
  const auto all = issued->list();
  if (!input.empty() && !parse_json_object(input, "").ok())
    require(!all.ok(), "a damaged record is not read", input);
  if (all.ok()) {
    require(all->certificates.size() <= IssuedCertificates::kMost, "the list is bounded");
    for (const IssuedCertificate& one : all->certificates) {
      require(is_uuid(one.proxy_id.str()), "a certificate is a proxy's", input);
      require(!one.serial_number.empty(), "a certificate has a serial number", input);
      require(one.not_after > clock.wall_now(), "a certificate has not ended", input);
    }
  }
  const std::string uuid = "6f2c1a34-8d1e-4c5b-9a70-3e2f1d0c9b8a";
  issued->add({.common_name = CommonName(uuid + ".api.shop"),
               .spiffe_id = SpiffeId("spiffe://cluster.local/osm/proxy/" + uuid + "/shop/api"),
               .proxy_id = ProxyId(uuid),
               .serial_number = "0a",
               .not_before = clock.wall_now(),
               .not_after = clock.wall_now() + std::chrono::hours(1)});
  executor.run_for(std::chrono::seconds(1));
  require(all.ok() || !record.stored, "a damaged record is not replaced", input);
  require(!record.stored || issued->list().ok(), "what is written reads back", input);

  if (const auto pod = inject::issued_pod_certificate(std::string(input)))
    require(pod->kind == WorkloadKind::kPod && !pod->claimed, "an annotation is a pod's", input);
}

const bool kAdded = add("issued", run);

}  // namespace
