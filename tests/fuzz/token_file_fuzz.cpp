// The file of a token, as MeshRootCertificates and kubeconfigs name one: it is taken exactly, but
// for the white space around it, or refused in words that do not depend on its content.
//
//   input: the file.
#include <algorithm>

#include <boost/asio/io_context.hpp>

#include "fuzz/fuzz.hpp"
#include "fuzz/memory_file.hpp"
#include "fuzz/quiet.hpp"
#include "fuzz/scripted_http.hpp"
#include "kubernetes/client/credentials.hpp"
#include "osm/runtime/system.hpp"
#include "osm/testing/manual_clock.hpp"
#include "osm/testing/manual_executor.hpp"
#include "vault/login.hpp"

using namespace osm;
using namespace osm::fuzz;

namespace {

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kSpace = " \t\r\n";
  const auto first = std::min(text.find_first_not_of(kSpace), text.size());
  return text.substr(first, text.find_last_not_of(kSpace) + 1 - first);
}

Result<std::string> kubernetes_token(const MemoryFile& file) {
  const testing::ManualClock clock;
  kubernetes::Access access;
  access.token_file = file.path();
  return kubernetes::Credentials(access, {}, clock).token();
}

Result<std::string> vault_token(const MemoryFile& file) {
  testing::ManualClock clock;
  testing::ManualExecutor executor(clock);
  RandomRng rng(1);
  QuietLog log;
  QuietMetrics metrics;
  boost::asio::io_context context;
  net::AsioExecutor io(context);
  ScriptedHttp http({});
  const vault::IssuerOptions options{.address = {"vault.example", 8200},
                                     .token = vault::from_file(file.path()),
                                     .io = io,
                                     .runtime = {executor, executor, clock, rng, log, metrics}};
  vault::Api api(options, http);
  const auto token = vault::Login(options, api).token();
  require(http.asked.empty(), "a token in a file is not asked for");
  if (!token.ok()) return token.error();
  return token->text();
}

using Reader = Result<std::string> (*)(const MemoryFile&);

void check(Reader read, std::string_view text) {
  const MemoryFile file(text);
  const auto token = read(file);
  if (token.ok()) {
    require(*token == trimmed(text) && !token->empty(), "a token is taken exactly");
    require(token->find_first_of("\r\n") == std::string::npos, "a token is one line of a header");
    return;
  }
  require(token.error().code == ErrorCode::kUnreadableSource, "a refusal says its kind");
  // Neither too large a file nor another one is told more of than that.
  const MemoryFile empty("");
  std::string reason = read(empty).error().message;
  std::string said = token.error().message;
  for (std::string* one : {&reason, &said})
    if (one->starts_with("/proc/")) one->erase(0, one->find(':'));
  require(said == reason || said.size() < 200, "a refusal does not quote", said);
  // A file may hold the very words of the refusal.
  require(
      said == reason || trimmed(text).size() < 8 || said.find(trimmed(text)) == std::string::npos,
      "a refusal does not quote", said);
}

void run(std::string_view text) {
  check(kubernetes_token, text);
  check(vault_token, text);
}

const bool kAdded = add("token_file", [](std::string_view input) { run(input); });

}  // namespace
