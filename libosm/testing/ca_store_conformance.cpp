#include "osm/testing/ca_store_conformance.hpp"

#include <optional>
#include <set>
#include <thread>
#include <utility>

#include "osm/testing/manual_clock.hpp"
#include "testing/conformance_suite.hpp"

namespace osm::inline v1::testing {
namespace {

using certificate::CaStore;
using certificate::PrivateKey;

// A CA in memory.
class HeldCa final : public CaStore {
 public:
  std::string name() const override { return "the suite"; }
  Result<std::optional<PrivateKey>> load() override {
    if (pem_.empty()) return std::optional<PrivateKey>();
    return std::optional<PrivateKey>(copy());
  }
  Status create(const PrivateKey& pem) override {
    pem_ = PrivateKey(std::string(pem.pem()));
    return {};
  }
  PrivateKey copy() const { return PrivateKey(std::string(pem_.pem())); }

 private:
  PrivateKey pem_;
};

class CaStoreBench {
 public:
  CaStoreBench(const CaStorePlatformFactory& factory, const CaStoreConformanceOptions& options,
               OnStep on_step)
      : racers(options.racers), step(std::move(on_step)), platform(factory()) {}

  std::unique_ptr<CaStore> open() {
    step("opening a store");
    auto store = platform->open();
    step("calling a store");
    return store;
  }

  // A CA that no store has yet.
  PrivateKey make_ca() {
    HeldCa held;
    static_cast<void>(issuer_of(held));
    return held.copy();
  }
  // Id of the CA in `store`, empty: there is none. Failure: as load(); its text is no CA.
  Result<std::string> id_in(CaStore& store) {
    OSM_TRY(const auto pem, store.load());
    if (!pem) return std::string();
    return id_of(*pem);
  }
  Result<std::string> id_of(const PrivateKey& pem) {
    HeldCa held;
    static_cast<void>(held.create(pem));
    OSM_TRY(const auto issuer, issuer_of(held));
    return issuer->id();
  }
  Result<std::unique_ptr<certificate::Issuer>> issuer_of(CaStore& store) {
    return certificate::load_or_create_ca(
        {.store = store, .trust_domain = TrustDomain("cluster.local"), .clock = clock});
  }

  const int racers;
  const OnStep step;
  ManualClock clock;
  const std::unique_ptr<CaStorePlatform> platform;
};

std::string seen(const Result<std::string>& id) {
  if (!id.ok()) return id.error().text();
  return id->empty() ? "no CA" : "the CA " + *id;
}
std::string seen(const Status& done) { return done.ok() ? "success" : done.error().text(); }

bool of_an_outage(const Error& error) {
  return error.code == ErrorCode::kUnavailable || error.code == ErrorCode::kStorage;
}

Verdict stored(CaStoreBench& bench) {
  const auto store = bench.open();
  if (store->name().empty())
    return failed("name() says where the CA is, for errors", "an empty name");
  if (const auto none = bench.id_in(*store); !none.ok() || !none->empty())
    return failed("load() of an empty store is nothing, and no failure", seen(none));
  const auto ca = bench.make_ca();
  const Status created = store->create(ca);
  if (!created.ok()) return failed("create() stores the CA", seen(created));
  const auto id = bench.id_in(*store);
  if (!id.ok() || *id != bench.id_of(ca).value())
    return failed("load() gives the CA that create() stored, with its key and certificate",
                  seen(id));
  return passed(store->name() + " has " + seen(id));
}

Verdict shared(CaStoreBench& bench) {
  const auto early = bench.open();
  const auto ca = bench.make_ca();
  if (const Status created = bench.open()->create(ca); !created.ok()) return not_judged("stored");
  const std::string made = bench.id_of(ca).value();
  if (const auto id = bench.id_in(*early); !id.ok() || *id != made)
    return failed("a process that opened the store before sees the CA of another one", seen(id));
  const auto late = bench.open();
  if (const auto id = bench.id_in(*late); !id.ok() || *id != made)
    return failed("the CA outlives the process that created it", seen(id));
  return passed("one CA for all");
}

Verdict once(CaStoreBench& bench) {
  const auto store = bench.open(), other = bench.open();
  const auto ca = bench.make_ca();
  if (!store->create(ca).ok()) return not_judged("stored");
  for (CaStore* late : {store.get(), other.get()}) {
    const Status created = late->create(bench.make_ca());
    if (!created.ok())
      return failed("create() is no failure if there is a CA already: the creator loads it",
                    seen(created));
    if (const auto id = bench.id_in(*other); !id.ok() || *id != bench.id_of(ca).value())
      return failed("create() never replaces a CA: the mesh trusts it", "another CA is there");
  }
  return passed("the first CA stays");
}

Verdict race(CaStoreBench& bench) {
  std::vector<std::unique_ptr<CaStore>> stores;
  for (int i = 0; i < bench.racers; ++i) stores.push_back(bench.open());
  std::vector<Result<std::string>> ids(stores.size(), std::string());
  bench.step("creating the CA with several stores at once");
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < stores.size(); ++i)
    threads.emplace_back([&, i] {
      const auto issuer = bench.issuer_of(*stores[i]);
      if (issuer.ok())
        ids[i] = (*issuer)->id();
      else
        ids[i] = issuer.error();
    });
  for (std::thread& thread : threads) thread.join();
  std::set<std::string> all;
  for (const auto& id : ids) all.insert(seen(id));
  all.insert(seen(bench.id_in(*bench.open())));
  if (all.size() != 1)
    return failed("all processes that race to create the CA get the same one",
                  std::to_string(all.size()) + " answers, such as " + *all.begin());
  return passed("all have " + *all.begin());
}

Verdict concurrent(CaStoreBench& bench) {
  const auto store = bench.open();
  const auto ca = bench.make_ca();
  if (!store->create(ca).ok()) return not_judged("stored");
  const std::string made = bench.id_of(ca).value();
  std::vector<std::string> wrong(static_cast<std::size_t>(bench.racers));
  bench.step("loading from several threads at once");
  std::vector<std::thread> threads;
  for (std::string& each : wrong)
    threads.emplace_back([&] {
      const auto id = bench.id_in(*store);
      if (!id.ok() || *id != made) each = seen(id);
    });
  for (std::thread& thread : threads) thread.join();
  for (const std::string& each : wrong)
    if (!each.empty()) return failed("any thread may call a store, several at once", each);
  return passed("the same CA for all threads");
}

Verdict outage(CaStoreBench& bench) {
  if (!bench.platform->traits().outages) return not_applicable("the place is always reachable");
  const auto store = bench.open();
  const auto ca = bench.make_ca();
  if (!store->create(ca).ok()) return not_judged("stored");
  bench.platform->set_reachable(false);
  bench.step("calling a store whose place cannot be reached");
  const auto id = bench.id_in(*store);
  if (id.ok())
    return failed("a place that cannot be reached is a failure, or a second CA is made", seen(id));
  if (!of_an_outage(id.error()))
    return failed("load() of a place that cannot be reached is kUnavailable or kStorage", seen(id));
  bench.platform->set_reachable(true);
  if (const auto back = bench.id_in(*store); !back.ok() || *back != bench.id_of(ca).value())
    return failed("the CA is there when the place is back", seen(back));
  return passed(id.error().text());
}

Verdict outage_at_create(CaStoreBench& bench) {
  if (!bench.platform->traits().outages) return not_applicable("the place is always reachable");
  const auto store = bench.open();
  bench.platform->set_reachable(false);
  bench.step("creating a CA in a place that cannot be reached");
  const Status created = store->create(bench.make_ca());
  if (created.ok() || !of_an_outage(created.error()))
    return failed("create() fails with kUnavailable or kStorage if the place cannot be reached",
                  seen(created));
  bench.platform->set_reachable(true);
  if (const auto issuer = bench.issuer_of(*store); !issuer.ok())
    return failed("a CA can be created when the place is back", issuer.error().text());
  return passed(created.error().text());
}

Verdict broken(CaStoreBench& bench) {
  const std::string secret = "c2VjcmV0LW9mLXRoZS1tZXNo";
  bench.platform->put_broken("-----BEGIN PRIVATE KEY-----\n" + secret +
                             "\n-----END PRIVATE KEY-----\n");
  const auto store = bench.open();
  for (int i = 0; i < 2; ++i) {
    const auto issuer = bench.issuer_of(*store);
    if (issuer.ok())
      return failed("a text that is no CA is a failure and stays, or the mesh gets another root",
                    "the CA " + (*issuer)->id() + " was made");
    const std::string text = issuer.error().text();
    if (text.find(secret) != std::string::npos)
      return failed("no error shows a key", "an error with the key");
    if (text.find(store->name()) == std::string::npos)
      return failed("the error names the store", text);
    if (i == 0) static_cast<void>(store->create(bench.make_ca()));  // must not replace it
  }
  return passed("refused, and left alone");
}

Suite<CaStoreBench> ca_store_suite(const CaStorePlatformFactory& platform,
                                   const CaStoreConformanceOptions& options) {
  return {"CA store",
          "ca_store_clauses()",
          {
              {{"stored", "a store gives back the CA that was created in it"}, stored},
              {{"shared", "every process has the CA that one of them created"}, shared},
              {{"once", "a CA is never replaced"}, once},
              {{"race", "processes that race to create the CA get the same one"}, race},
              {{"concurrent", "threads may load at once"}, concurrent},
              {{"outage", "a place that cannot be reached is not an empty one"}, outage},
              {{"outage-at-create", "a CA that cannot be stored is a failure"}, outage_at_create},
              {{"broken", "a text that is no CA is refused and stays"}, broken},
          },
          options.clause_deadline,
          [platform, options](const OnStep& on_step) {
            return std::make_unique<CaStoreBench>(platform, options, on_step);
          }};
}

}  // namespace

std::vector<ConformanceClause> ca_store_clauses() { return listed(ca_store_suite({}, {}).clauses); }

ConformanceReport check_ca_store(const CaStorePlatformFactory& platform,
                                 const CaStoreConformanceOptions& options) {
  return ca_store_suite(platform, options).run_all();
}

ConformanceResult check_ca_store_clause(std::string_view id, const CaStorePlatformFactory& platform,
                                        const CaStoreConformanceOptions& options) {
  return ca_store_suite(platform, options).run_one(id);
}

}  // namespace osm::inline v1::testing
