// The file of --providers → providers: each that is read has a name of its own, may claim accounts
// that are listed, and is reached by a Unix socket or with all parts of mutual TLS; a refusal names
// the file.
//
//   input: the file.
#include <set>

#include "fuzz/fuzz.hpp"
#include "fuzz/memory_file.hpp"
#include "osm/ids.hpp"
#include "osm/remote/provider.hpp"

using namespace osm;
using namespace osm::fuzz;

namespace {

void check(const remote::RemoteProviderOptions& provider) {
  require(is_dns_label(provider.name), "a provider has a name", provider.name);
  require(!provider.allow.empty(), "a provider may claim what is listed, and no more");
  for (const auto& allowed : provider.allow) {
    require(!allowed.ns.empty(), "what is allowed is in a namespace");
    if (allowed.accounts)
      for (const std::string& account : *allowed.accounts)
        require(is_dns_subdomain(account), "an account is a name", account);
  }
  const bool tls =
      !provider.ca_file.empty() && !provider.certificate_file.empty() && !provider.key_file.empty();
  require(provider.address.starts_with("unix:") != tls, "TCP is mutual TLS", provider.address);
}

void run(std::string_view input) {
  const MemoryFile file(input);
  const auto providers = remote::read_providers_file(file.path());
  if (!providers.ok()) {
    require(providers.error().message.starts_with(file.path() + ':'), "a refusal names the file",
            providers.error().message);
    return;
  }
  std::set<std::string> names;
  for (const auto& provider : *providers) {
    check(provider);
    require(names.insert(provider.name).second, "a name is one provider's", provider.name);
  }
  const auto again = remote::read_providers_file(file.path());
  require(again.ok() && *again == *providers, "a file reads the same twice");
}

const bool kAdded = add("providers_file", run);

}  // namespace
