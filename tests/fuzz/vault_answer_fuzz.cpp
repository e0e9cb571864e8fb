// Answers of something that says it is Vault: no token gets into an error or a log line, a token
// that is taken fits into a header, and a chain of the CA means the same when it is read again.
//
//   input: '0' a request, '1' a login, '2' the care for a token, then answers, each a line of its
//   status and its body, apart by a line "--"; or '3', then a chain in PEM.
#include <algorithm>
#include <charconv>

#include <boost/asio/io_context.hpp>

#include "fuzz/fuzz.hpp"
#include "fuzz/quiet.hpp"
#include "fuzz/scripted_http.hpp"
#include "osm/runtime/system.hpp"
#include "osm/testing/manual_clock.hpp"
#include "osm/testing/manual_executor.hpp"
#include "vault/api.hpp"
#include "vault/ca_chain.hpp"
#include "vault/login.hpp"

using namespace osm;
using namespace osm::fuzz;

namespace {

using namespace vault;

constexpr const char* kToken = "hvs.first-token-of-the-mesh";
constexpr const char* kJwt = "eyJhbGciOi.the-account.signed";
constexpr std::size_t kMaxError = 1000;

// An answer can only repeat what the server was sent: those words may not be quoted.
void require_no_secret(std::string_view text, const std::vector<net::HttpRequest>& asked) {
  if (asked.empty()) return;
  for (const std::string_view secret : {kToken, kJwt}) {
    const auto holds = [&](std::string_view sent) { return sent.find(secret) != sent.npos; };
    const net::HttpRequest& last = asked.back();
    const bool sent =
        holds(last.body) ||
        std::ranges::any_of(last.headers, [&](const auto& header) { return holds(header.second); });
    require(!sent || !holds(text), "no text holds a token", text);
  }
}

class WatchedLog final : public LogSink {
 public:
  explicit WatchedLog(const ScriptedHttp& http) : http_(http) {}

  bool enabled(LogLevel) const override { return true; }
  void write(LogLevel, std::string_view message, std::span<const LogField> fields) override {
    require_no_secret(message, http_.asked);
    for (const LogField& field : fields) require_no_secret(field.value, http_.asked);
  }

 private:
  const ScriptedHttp& http_;
};

std::vector<net::Response> answers_from(std::string_view text) {
  constexpr std::string_view kApart = "\n--\n";
  std::vector<net::Response> answers;
  while (!text.empty() && answers.size() < 8) {
    const auto end = std::min(text.find(kApart), text.size());
    const std::string_view one = text.substr(0, end);
    net::Response answer;
    const auto body = std::min(one.find('\n'), one.size());
    std::from_chars(one.data(), one.data() + body, answer.status);
    answer.body = one.substr(std::min(body + 1, one.size()));
    answers.push_back(std::move(answer));
    text.remove_prefix(std::min(end + kApart.size(), text.size()));
  }
  return answers;
}

bool is_word(std::string_view text) {
  return !text.empty() && std::ranges::all_of(text, [](char c) { return c > ' ' && c <= '~'; });
}

void check(const Error& error, const std::vector<net::HttpRequest>& asked = {}) {
  require_no_secret(error.message, asked);
  require(error.message.size() <= kMaxError, "an error is bounded", error.message);
  require(std::ranges::all_of(error.message, [](char c) { return c >= ' ' && c <= '~'; }),
          "an error is one printable line", error.message);
}

struct World {
  explicit World(const ScriptedHttp& http) : log(http) {}

  testing::ManualClock clock;
  testing::ManualExecutor executor{clock};
  RandomRng rng{1};
  WatchedLog log;
  QuietMetrics metrics;
  boost::asio::io_context context;
  net::AsioExecutor io{context};
};

void ask(std::size_t kind, std::string_view script) {
  const std::vector<net::Response> answers = answers_from(script);
  ScriptedHttp http(answers);
  World world(http);
  IssuerOptions options{.address = {"vault.example", 8200},
                        .io = world.io,
                        .runtime = {world.executor, world.executor, world.clock, world.rng,
                                    world.log, world.metrics}};
  options.token = [] { return Result<std::string>(std::string(kToken) + '\n'); };
  if (kind != 0 && script.size() % 2 == 0)
    options.kubernetes =
        KubernetesLogin{.role = "mesh", .jwt = [] { return Result<std::string>(kJwt); }};
  Api api(options, http);
  if (kind == 0) {
    const auto answer =
        api.call({.operation = "sign", .path = "pki/sign/mesh", .token = SecretBytes(kToken)});
    if (!answer.ok()) return check(answer.error(), http.asked);
    require(answers.front().status == 200 || answers.front().status == 204,
            "only a success is an answer");
    const auto seconds = seconds_at(*answer, "lease_duration");
    require(seconds.count() >= 0 && seconds <= std::chrono::hours(24 * 366 * 100),
            "a time is at most a century");
    return;
  }
  Login login(options, api);
  if (kind == 2) {
    const auto wait = login.look_after();
    if (!wait.ok()) return check(wait.error(), http.asked);
    require(*wait >= std::chrono::seconds(1) && *wait <= std::chrono::minutes(1),
            "a token is looked after every minute");
  }
  const auto token = login.token();
  if (!token.ok()) return check(token.error(), http.asked);
  require(is_word(token->text()), "a token fits into a header");
  require(login.taken() >= 1, "a token that was taken counts");
  require(login.token().ok() && login.token()->text() == token->text(), "a token is kept");
}

void read_chain(std::string_view pem) {
  const auto chain = read_ca_chain(pem);
  if (!chain.ok()) {
    require(chain.error().code == ErrorCode::kInvalidCertificate, "a refusal says its kind");
    return check(chain.error());
  }
  require(chain->fingerprint.size() == 64 && !chain->roots_pem.empty(), "a chain has its root");
  // The signing certificate is first, unless it is a root itself.
  const auto below = read_ca_chain(chain->intermediates_pem + chain->roots_pem);
  const auto above = read_ca_chain(chain->roots_pem + chain->intermediates_pem);
  require(below.ok() && above.ok() && (*below == *chain || *above == *chain),
          "a chain means the same when it is read again");
}

void run(Choices choices) {
  const std::size_t kind = choices.below(4);
  if (kind == 3) return read_chain(choices.rest());
  ask(kind, choices.rest());
}

const bool kAdded = add("vault_answer", [](std::string_view input) { run(Choices(input)); });

}  // namespace
