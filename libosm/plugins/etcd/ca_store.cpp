#include <optional>
#include <string_view>
#include <utility>

#include "base/base64.hpp"
#include "base/json.hpp"
#include "etcd/gateway.hpp"
#include "osm/certificate/etcd_ca.hpp"

namespace osm::inline v1::etcd {
namespace {

namespace json = boost::json;
using certificate::PrivateKey;

constexpr std::string_view kTls = "https://";
constexpr std::string_view kPlain = "http://";
constexpr const char* kPort = ":2379";

class EtcdCaStore final : public certificate::CaStore {
 public:
  EtcdCaStore(const CaStoreOptions& options, std::vector<Endpoint> endpoints)
      : key_(options.key), name_(name_of(options.key, endpoints)), gateway_(options, endpoints) {}

  // Check readable inputs now rather than at the first request.
  Status check() const {
    const auto tls = gateway_.tls();
    return tls.ok() ? Status() : Status(tls.error().with_context(name_));
  }

  std::string name() const override { return name_; }

  Result<std::optional<PrivateKey>> load() override {
    std::optional<PrivateKey> pem;
    const Status read = gateway_.post(
        "kv/range", R"({"key":")" + base64(key_) + R"("})", [&](json::object& answer) -> Status {
          const json::array& pairs = list_at(answer, "kvs");
          if (pairs.empty()) return {};  // zero is left out
          const SecretBytes value(text_at(pairs.front(), "value"));
          auto bytes = from_base64(value.text());
          if (!bytes || bytes->empty())
            return Error{ErrorCode::kInvalidSyntax, "the answer is not from etcd's JSON gateway"};
          pem.emplace(*std::move(bytes));
          return {};
        });
    if (!read.ok()) return read.error().with_context(name_);
    return pem;
  }

  Status create(const PrivateKey& pem) override {
    if (pem.empty()) return Error{ErrorCode::kInternal, name_ + ": no key was made"};
    const std::string key = base64(key_);
    const SecretBytes value(base64(pem.pem()));
    // One transaction: it writes the key only if it was never written (create_revision 0). Another
    // writer may have been first, and repeating the transaction at another endpoint does no harm.
    SecretBytes body;
    body.append(R"({"compare":[{"target":"CREATE","result":"EQUAL","create_revision":"0","key":")")
        .append(key)
        .append(R"("}],"success":[{"request_put":{"key":")")
        .append(key)
        .append(R"(","value":")")
        .append(value.text())
        .append(R"("}}]})");
    const Status done =
        gateway_.post("kv/txn", body.text(), [](const json::object&) { return Status(); });
    if (!done.ok()) return done.error().with_context(name_);
    return {};
  }

 private:
  static std::string name_of(const std::string& key, const std::vector<Endpoint>& endpoints) {
    std::string name = "certificate authority at key " + key + " of etcd (";
    for (const Endpoint& endpoint : endpoints)
      name.append(name.ends_with('(') ? "" : ", ").append(endpoint.url);
    return name + ')';
  }

  const std::string key_;
  const std::string name_;
  const Gateway gateway_;
};

Error refused(const std::string& why) {
  return {ErrorCode::kInvalidArgument, "certificate authority in etcd: " + why};
}

Error refused_endpoint(const std::string& text, const std::string& why) {
  return {ErrorCode::kInvalidArgument, "etcd endpoint '" + text + "': " + why};
}

// Failure: kInvalidArgument, with the remedy, for an invalid URL and for plain HTTP to another
// machine.
Result<Endpoint> parse_endpoint(const std::string& text) {
  std::string_view rest = text;
  const bool tls = rest.starts_with(kTls);
  if (!tls && !rest.starts_with(kPlain))
    return refused_endpoint(text, "is no URL of an etcd: write https://HOST:2379");
  rest.remove_prefix((tls ? kTls : kPlain).size());
  if (rest.ends_with('/')) rest.remove_suffix(1);
  if (rest.find_first_of("/?#@") != std::string_view::npos)
    return refused_endpoint(text, "has more than scheme, host and port: write https://HOST:2379");

  std::string host_and_port(rest);
  const auto bracket = host_and_port.rfind(']');
  const auto after_host = bracket == std::string::npos ? 0 : bracket;
  if (host_and_port.find(':', after_host) == std::string::npos) host_and_port += kPort;
  const auto address = net::parse_address(host_and_port);
  if (!address.ok()) return refused_endpoint(text, address.error().message);
  if (address->is_unix()) return refused_endpoint(text, "is a socket: write https://HOST:2379");
  if (!tls && !address->is_this_machine())
    return refused_endpoint(
        text,
        "would show the CA's key to the network: write https://, and let etcd serve "
        "TLS (--cert-file, --key-file)");
  return Endpoint{std::string(tls ? kTls : kPlain) + address->str(), *address, tls};
}

}  // namespace

Result<std::unique_ptr<certificate::CaStore>> make_ca_store(CaStoreOptions options) {
  if (options.endpoints.empty())
    return refused("no endpoint is given: name at least one, such as https://10.0.0.1:2379");
  if (options.key.empty()) return refused("the key is empty: name one, such as /osm/ca");
  if (options.certificate_file.empty() != options.key_file.empty())
    return refused("a client certificate and its key are given together, or neither");
  if (options.user.empty() != options.password_file.empty())
    return refused("a user and the file of its password are given together, or neither");
  std::vector<Endpoint> endpoints;
  for (const std::string& text : options.endpoints) {
    OSM_TRY(Endpoint endpoint, parse_endpoint(text));
    endpoints.push_back(std::move(endpoint));
  }
  auto store = std::make_unique<EtcdCaStore>(options, std::move(endpoints));
  OSM_TRY(store->check());
  return std::unique_ptr<certificate::CaStore>(std::move(store));
}

}  // namespace osm::inline v1::etcd
