#include <memory>
#include <optional>
#include <utility>

#include "base/base64.hpp"
#include "base/json.hpp"
#include "etcd/gateway.hpp"
#include "osm/certificate/etcd_ca.hpp"

namespace osm::inline v1::etcd {
namespace {

namespace json = boost::json;
using certificate::PrivateKey;

class EtcdCaStore final : public certificate::CaStore {
 public:
  EtcdCaStore(const std::string& key, std::unique_ptr<Gateway> gateway)
      : key_(key),
        name_("certificate authority at " + gateway->name_of(key)),
        gateway_(std::move(gateway)) {}

  std::string name() const override { return name_; }

  Result<std::optional<PrivateKey>> load() override {
    std::optional<PrivateKey> pem;
    const Status read = gateway_->post("kv/range", R"({"key":")" + base64(key_) + R"("})",
                                       [&](json::object& answer) -> Status {
                                         const json::array& pairs = list_at(answer, "kvs");
                                         if (pairs.empty()) return {};  // zero is left out
                                         const SecretBytes value(text_at(pairs.front(), "value"));
                                         auto bytes = from_base64(value.text());
                                         if (!bytes || bytes->empty()) return not_etcd();
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
        gateway_->post("kv/txn", body.text(), [](const json::object&) { return Status(); });
    if (!done.ok()) return done.error().with_context(name_);
    return {};
  }

 private:
  const std::string key_;
  const std::string name_;
  const std::unique_ptr<Gateway> gateway_;
};

}  // namespace

Result<std::unique_ptr<certificate::CaStore>> make_ca_store(CaStoreOptions options) {
  const std::string key = options.key;
  OSM_TRY(auto gateway, Gateway::open(std::move(options)));
  return std::unique_ptr<certificate::CaStore>(
      std::make_unique<EtcdCaStore>(key, std::move(gateway)));
}

}  // namespace osm::inline v1::etcd
