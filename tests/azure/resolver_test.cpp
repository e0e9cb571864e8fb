// The resolver copes with tokens, pages, throttling, 404 and outages over a real HTTP server, and
// no secret gets into a log.
//
// A resolver over a real HTTP server that answers as Azure Resource Manager does.
#include <doctest/doctest.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <mutex>
#include <optional>
#include <thread>

#include "lib/run.hpp"
#include "lib/temporary_directory.hpp"
#include "osm/net/http_server.hpp"
#include "osm/runtime/system.hpp"
#include "osm/runtime/threads.hpp"
#include "osm/spec/azure_resources.hpp"
#include "osm/testing/capturing_sinks.hpp"
#include "osm/testing/manual_clock.hpp"
#include "osm/testing/manual_executor.hpp"

using namespace osm;
using namespace osm::azure;
using namespace std::chrono_literals;

namespace {

using Ids = std::set<std::string>;
using Texts = std::vector<std::string>;

const std::string kGroup = "/subscriptions/s/resourceGroups/g/providers/";
const std::string kMachine = kGroup + "Microsoft.Compute/virtualMachines/web";
const std::string kOther = kGroup + "Microsoft.Compute/virtualMachines/other";
const std::string kNic = kGroup + "Microsoft.Network/networkInterfaces/nic";
const std::string kSet = kGroup + "Microsoft.Compute/virtualMachineScaleSets/web";
constexpr const char* kSecret = "s3cret of the app";

std::string interface(const std::string& address, const std::string& machine) {
  return R"({"properties": {"primary": true, "virtualMachine": {"id": ")" + machine +
         R"("}, "ipConfigurations": [{"properties": {"privateIPAddress": ")" + address + "\"}}]}}";
}

struct ArmFixture {
  ArmFixture() {
    auto started = net::HttpServer::start(
        {.listen = {.host = "127.0.0.1", .port = 0}}, io.executor(), handlers.executor(),
        [this](const net::Request& request) { return answer(request); }, log);
    REQUIRE(started.ok());
    server = std::move(*started);
    std::ofstream(files.file("secret")) << kSecret << '\n';
    paths[kMachine] = {200, R"({"zones": ["1"], "properties": {
      "networkProfile": {"networkInterfaces": [{"id": ")" +
                                kNic + "\"}]}}}"};
    paths[kNic] = {200, interface("10.0.0.7", kMachine)};
    paths[kSet] = {200, R"({"properties": {"orchestrationMode": "Uniform"}})"};
  }
  ~ArmFixture() {
    subscription.reset();
    resolver.reset();
    CHECK(log.all_text().find(kSecret) == std::string::npos);
    CHECK(log.all_text().find("token-") == std::string::npos);
    const Status stopped = server->stop(10s);
    CHECK(stopped.ok());
  }

  std::string url() const { return "http://" + server->address().str(); }
  void start(std::chrono::seconds interval = 60s) {
    AzureSettings settings{.endpoint = url(), .interval = interval};
    settings.client = {url(), "tenant", "client", files.file("secret")};
    start_with(settings);
  }
  void start_with(const AzureSettings& settings) {
    auto made =
        make_azure_resolver({.settings = settings,
                             .io = io.executor(),
                             .runtime = {executor, blocking.executor(), clock, rng, log, metrics}});
    REQUIRE_MESSAGE(made.ok(), (made.ok() ? "" : made.error().text()));
    resolver = std::move(*made);
    subscription = resolver->subscribe([this](const Ids& ids) { changes.push_back(ids); });
  }

  net::Response answer(const net::Request& request) {
    const std::lock_guard lock(mutex);
    if (request.path == "/tenant/oauth2/v2.0/token") {
      ++logins;
      if (request.body.find("client_secret=s3cret%20of%20the%20app") == std::string::npos ||
          refuse_secret)
        return net::json_response(
            R"({"error": "invalid_client", "error_description": ")" + request.body + "\"}", 401);
      token = "token-" + std::to_string(logins);
      return net::json_response(R"({"access_token": ")" + token + R"(", "expires_in": 3600})");
    }
    if (request.path == "/metadata/identity/oauth2/token") {
      metadata = request;
      token = "token-of-the-machine";
      return net::json_response(R"({"access_token": ")" + token + R"(", "expires_in": "3600"})");
    }
    ++requests[request.path];
    const std::string given(request.header("Authorization"));
    if (given != "Bearer " + token || token.empty())
      return net::json_response(R"({"error": {"code": "Expired", "message": ")" + given + "\"}}",
                                401);
    if (throttle) {
      throttled = clock.steady_now();
      asked_again.reset();
      net::Response slower = net::json_response("{}", throttled_as);
      slower.headers = {{"Retry-After", std::to_string(throttle)}};
      return slower;
    }
    if (!asked_again) asked_again = clock.steady_now();
    std::string key = request.path;
    if (const auto skip = request.query.find("$skiptoken"); skip != request.query.end())
      key += '#' + skip->second;
    const auto at = paths.find(key);
    if (at == paths.end())
      return net::json_response(R"({"error": {"code": "ResourceNotFound", "message": "no"}})", 404);
    return net::json_response(at->second.second, at->second.first);
  }

  // Lets requests be answered until `done`. The clock stands still.
  template <class Done>
  void wait(const Done& done) {
    for (int i = 0; i < 20000; ++i) {
      executor.run_until_idle();
      {
        const std::lock_guard lock(mutex);
        if (done()) return;
      }
      std::this_thread::sleep_for(1ms);
    }
    FAIL("the condition does not hold within 20 s");
  }
  // Lets time pass as well.
  template <class Done>
  void pass_until(const Done& done) {
    for (int i = 0; i < 20000; ++i) {
      executor.run_for(1s);
      {
        const std::lock_guard lock(mutex);
        if (done()) return;
      }
      std::this_thread::sleep_for(1ms);
    }
    FAIL("the condition does not hold in hours");
  }
  void follow(Ids ids) { resolver->follow(std::move(ids)); }
  void wait_for(const Texts& wanted, const std::string& id) {
    wait([&] { return found(id) == wanted; });
  }
  Texts found(const std::string& id) const {
    const auto resolution = resolver->find(id);
    if (!resolution) return {"unknown"};
    Texts out;
    for (const auto& each : resolution->instances)
      out.push_back(each.name + '=' + each.address + (each.healthy ? "" : " stopped"));
    return out;
  }
  std::string problem() const {
    const auto problems = resolver->list_problems();
    return problems.empty() ? "" : problems.front().id + ": " + problems.front().cause;
  }
  int count(const std::string& path) {
    const std::lock_guard lock(mutex);
    return requests[path];
  }

  osm::testing::TemporaryDirectory files;
  osm::testing::ManualClock clock;
  osm::testing::ManualExecutor executor{clock};
  RandomRng rng{osm::testing::seed()};
  osm::testing::CapturingLog log;
  osm::testing::CapturingMetrics metrics;
  net::Threads io{1};
  net::Threads handlers{1};
  net::Threads blocking{5};
  std::mutex mutex;
  std::map<std::string, std::pair<int, std::string>> paths;  // by path, or path#skiptoken
  std::map<std::string, int> requests;
  std::string token;
  int logins = 0;
  int throttle = 0;
  int throttled_as = 429;
  SteadyTime throttled{};                   // the last answer that did
  std::optional<SteadyTime> asked_again{};  // the first request after it
  net::Request metadata;                    // the last one to the metadata service
  bool refuse_secret = false;
  std::unique_ptr<net::HttpServer> server;
  std::vector<Ids> changes;
  std::unique_ptr<ResourceResolver> resolver;
  Subscription subscription;
};

}  // namespace

TEST_SUITE("azure::make_azure_resolver") {
  TEST_CASE_FIXTURE(ArmFixture, "a machine has the address of its interface, and is asked again") {
    start();
    follow({kMachine});
    wait_for({"=10.0.0.7"}, kMachine);
    CHECK_FALSE(resolver->find(kMachine)->scales);
    CHECK(resolver->find(kMachine)->instances[0].zone == "1");
    CHECK(resolver->has_synced());
    CHECK(resolver->healthy());
    CHECK(changes.front() == Ids{kMachine});
    CHECK(logins == 1);
    {
      const std::lock_guard lock(mutex);
      paths[kNic] = {200, interface("10.0.0.8", kMachine)};
    }
    executor.run_for(59s);
    CHECK(count(kMachine) == 1);
    executor.run_for(17s);  // the interval, and up to a quarter more
    wait_for({"=10.0.0.8"}, kMachine);
    CHECK(logins == 1);
  }

  TEST_CASE_FIXTURE(ArmFixture, "a scale set has an instance for each machine, over all pages") {
    const std::string interfaces = kSet + "/networkInterfaces";
    const std::string next = "http://" + server->address().str() + interfaces + "?$skiptoken=1";
    paths[interfaces] = {200, R"({"value": [)" +
                                  interface("10.0.0.1", kSet + "/virtualMachines/0") +
                                  R"(], "nextLink": ")" + next + "\"}"};
    paths[interfaces + "#1"] = {
        200, R"({"value": [)" + interface("10.0.0.2", kSet + "/virtualMachines/7") + "]}"};
    paths[kSet + "/virtualMachines"] = {200, R"({"value": [{"instanceId": "7", "properties":
      {"instanceView": {"statuses": [{"code": "PowerState/stopped"}]}}}]})"};
    start();
    follow({kSet});
    wait_for({"0=10.0.0.1", "7=10.0.0.2 stopped"}, kSet);
    CHECK(resolver->find(kSet)->scales);

    // A page of another server is not asked for, and the answer is refused as a whole.
    {
      const std::lock_guard lock(mutex);
      paths[interfaces].second = R"({"value": [], "nextLink": "http://127.0.0.1:1/x"})";
    }
    executor.run_for(75s);
    wait([&] { return !problem().empty(); });
    CHECK(problem().find("continues at another server") != std::string::npos);
    CHECK(found(kSet) == Texts{"0=10.0.0.1", "7=10.0.0.2 stopped"});
  }

  TEST_CASE_FIXTURE(ArmFixture, "a scale set in flexible mode is a problem with its remedy") {
    paths[kSet] = {200, R"({"properties": {"orchestrationMode": "Flexible"}})"};
    for (const char* list : {"/networkInterfaces", "/virtualMachines"})
      paths[kSet + list] = {200, R"({"value": []})"};
    start();
    follow({kSet});
    wait([&] { return !problem().empty(); });
    CHECK(problem().starts_with(kSet + ": " + kSet + " has no endpoints: it is in flexible "));
    CHECK(problem().ends_with("write an AzureResource for each of its virtual machines"));
    CHECK(resolver->healthy());
    // It does not hold the start up for ever.
    pass_until([&] { return resolver->has_synced(); });
    // Somebody replaces it by a set whose instances ARM lists.
    {
      const std::lock_guard lock(mutex);
      paths[kSet] = {200, R"({"properties": {"orchestrationMode": "Uniform"}})"};
      paths[kSet + "/networkInterfaces"] = {
          200, R"({"value": [)" + interface("10.0.0.1", kSet + "/virtualMachines/0") + "]}"};
    }
    pass_until([&] { return found(kSet) == Texts{"0=10.0.0.1"}; });
    CHECK(problem().empty());
  }

  TEST_CASE_FIXTURE(ArmFixture, "a token that ARM does not take is replaced once") {
    start();
    follow({kMachine});
    wait_for({"=10.0.0.7"}, kMachine);
    {
      const std::lock_guard lock(mutex);
      token = "another";
      paths[kNic] = {200, interface("10.0.0.8", kMachine)};
    }
    executor.run_for(75s);
    wait_for({"=10.0.0.8"}, kMachine);
    CHECK(logins == 2);
    CHECK(problem().empty());
  }

  TEST_CASE_FIXTURE(ArmFixture, "without a token the answers stay, and one problem says why") {
    start();
    follow({kMachine});
    wait_for({"=10.0.0.7"}, kMachine);
    {
      const std::lock_guard lock(mutex);
      token = "another";
      refuse_secret = true;
    }
    follow({kMachine, kOther});
    executor.run_for(75s);
    wait([&] { return !resolver->healthy(); });
    CHECK(found(kMachine) == Texts{"=10.0.0.7"});
    CHECK_FALSE(resolver->has_synced());
    CHECK(resolver->list_problems().size() == 1);
    CHECK(problem().starts_with(": http://127.0.0.1"));
    CHECK(problem().find("(invalid_client)") != std::string::npos);
    CHECK(problem().find("s3cret") == std::string::npos);
    {
      const std::lock_guard lock(mutex);
      refuse_secret = false;
    }
    pass_until([&] { return resolver->healthy(); });
  }

  TEST_CASE_FIXTURE(ArmFixture, "a token is replaced five minutes before its end") {
    start();
    follow({kMachine});
    wait_for({"=10.0.0.7"}, kMachine);
    const SteadyTime taken = clock.steady_now();
    pass_until([&] { return logins == 2; });
    CHECK(clock.steady_now() - taken >= 3300s);
    CHECK(clock.steady_now() - taken < 3600s);
    pass_until([&] { return logins == 3; });
    CHECK(problem().empty());
  }

  TEST_CASE_FIXTURE(ArmFixture, "a machine asks its metadata service, as the identity it is told") {
    AzureSettings settings{.endpoint = url()};
    settings.managed = {.metadata = url(), .client_id = "the app"};
    start_with(settings);
    follow({kMachine});
    wait_for({"=10.0.0.7"}, kMachine);
    const std::lock_guard lock(mutex);
    CHECK(metadata.query.at("client_id") == "the app");
    CHECK(metadata.header("Metadata") == "true");
    CHECK(metadata.query.at("resource") == url() + '/');
  }

  TEST_CASE_FIXTURE(ArmFixture, "nothing is asked for while ARM throttles, or is away for a time") {
    SUBCASE("429") { throttled_as = 429; }
    SUBCASE("503") { throttled_as = 503; }
    start();
    follow({kMachine});
    wait_for({"=10.0.0.7"}, kMachine);
    {
      const std::lock_guard lock(mutex);
      throttle = 600;
    }
    executor.run_for(75s);
    wait([&] { return !problem().empty(); });
    CHECK(problem().find(std::to_string(throttled_as)) != std::string::npos);
    CHECK(resolver->healthy());
    {
      const std::lock_guard lock(mutex);
      throttle = 0;
    }
    follow({kMachine, kOther});
    pass_until([&] { return requests[kOther] > 0; });
    wait([&] { return problem().find(kMachine) == std::string::npos; });
    const std::lock_guard lock(mutex);
    CHECK(*asked_again - throttled >= 600s);
    CHECK(found(kMachine) == Texts{"=10.0.0.7"});
  }

  TEST_CASE_FIXTURE(ArmFixture, "a resource that is gone keeps its address for five minutes") {
    start(5s);
    follow({kMachine});
    wait_for({"=10.0.0.7"}, kMachine);
    {
      const std::lock_guard lock(mutex);
      paths.erase(kMachine);
    }
    executor.run_for(7s);
    wait([&] { return !problem().empty(); });
    CHECK(problem().find("ARM answered 404 for " + kMachine + " (ResourceNotFound: no)") !=
          std::string::npos);
    CHECK(found(kMachine) == Texts{"=10.0.0.7"});
    const SteadyTime gone = clock.steady_now();
    pass_until([&] { return found(kMachine).empty(); });
    CHECK(clock.steady_now() - gone >= 295s);
  }

  TEST_CASE_FIXTURE(ArmFixture, "a resolver ends while a request is in flight") {
    start();
    follow({kMachine});
    executor.run_until_idle();
    subscription.reset();
    resolver.reset();
    executor.run_until_idle();
    CHECK(changes.empty());
  }
}
