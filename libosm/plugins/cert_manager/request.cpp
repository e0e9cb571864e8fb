#include "cert_manager/request.hpp"

#include <boost/json.hpp>
#include <optional>
#include <string_view>
#include <utility>

#include "base/base64.hpp"

namespace osm::inline v1::cert_manager {
namespace {

namespace json = boost::json;
using certificate::Usage;

constexpr std::size_t kMaxQuoted = 1024;  // of a condition's message

std::string text_of(const json::object& map, std::string_view name) {
  const json::value* const value = map.if_contains(name);
  const json::string* const text = value ? value->if_string() : nullptr;
  return text ? std::string(*text) : std::string();
}

// What certificate::check_answer() insists on, and what policies of approvers usually allow.
json::array usages_of(Usage usage) {
  json::array usages{"digital signature", "key encipherment"};
  if (usage == Usage::kWorkload || usage == Usage::kController || usage == Usage::kWebhook)
    usages.emplace_back("server auth");
  if (usage == Usage::kWorkload || usage == Usage::kProxy || usage == Usage::kGateway)
    usages.emplace_back("client auth");
  return usages;
}

// A condition of a status, with what it says.
struct Condition {
  std::string status;
  std::string reason;
  std::string message;

  bool holds() const { return status == "True"; }
  std::string words() const {
    const std::string said = message.substr(0, kMaxQuoted);
    return reason.empty() || said.empty() ? reason + said : reason + ": " + said;
  }
};

std::optional<Condition> condition_of(const json::object& status, std::string_view type) {
  const json::value* const found = status.if_contains("conditions");
  const json::array* const conditions = found ? found->if_array() : nullptr;
  if (!conditions) return std::nullopt;
  for (const json::value& each : *conditions) {
    const json::object* const condition = each.if_object();
    if (condition && text_of(*condition, "type") == type)
      return Condition{text_of(*condition, "status"), text_of(*condition, "reason"),
                       text_of(*condition, "message")};
  }
  return std::nullopt;
}

Result<std::string> bytes_of(const json::object& status, const char* field) {
  auto bytes = from_base64(text_of(status, field));
  if (bytes) return *std::move(bytes);
  return Error{ErrorCode::kInvalidSyntax,
               "status." + std::string(field) + " of the CertificateRequest is not base64"};
}

// It goes on, sooner or later; what it waits for.
std::string awaited(const json::object& status, const std::optional<Condition>& ready) {
  if (ready && !ready->words().empty()) return ready->words();
  const auto approved = condition_of(status, "Approved");
  if (approved && approved->holds()) return "it is approved, and no issuer has taken it up";
  return "it is not approved: cert-manager does so by itself unless its approver was turned off, "
         "then an approver of your own must";
}

}  // namespace

const kubernetes::ObjectKind& request_kind() {
  static const kubernetes::ObjectKind kKind{"cert-manager.io", "v1", "certificaterequests",
                                            "CertificateRequest"};
  return kKind;
}

std::string request_json(const std::string& ns, const std::string& name, const IssuerRef& issuer,
                         const certificate::SigningRequest& request) {
  const json::object labels{{"app.kubernetes.io/name", "openservicemesh.io"},
                            {"app.kubernetes.io/component", "certificate-request"}};
  return json::serialize(json::object{
      {"apiVersion", "cert-manager.io/v1"},
      {"kind", request_kind().kind},
      {"metadata", json::object{{"namespace", ns}, {"name", name}, {"labels", labels}}},
      {"spec", json::object{{"request", base64(request.request_pem)},
                            {"issuerRef", json::object{{"name", issuer.name},
                                                       {"kind", issuer.kind},
                                                       {"group", issuer.group}}},
                            {"duration", std::to_string(request.validity.count()) + "s"},
                            {"isCA", false},
                            {"usages", usages_of(request.subject.usage)}}}});
}

Result<Progress> read_progress(const std::string& json) {
  boost::system::error_code fault;
  const json::value object = json::parse(json, fault);
  if (fault || !object.is_object())
    return Error{ErrorCode::kInvalidSyntax, "the CertificateRequest is not a JSON object"};
  const json::value* const found = object.get_object().if_contains("status");
  static const json::object kNone;
  const json::object& status = found && found->is_object() ? found->get_object() : kNone;

  const auto ready = condition_of(status, "Ready");
  if (const auto denied = condition_of(status, "Denied"); denied && denied->holds())
    return Progress{.phase = Phase::kDenied, .why = denied->words()};
  if (const auto invalid = condition_of(status, "InvalidRequest"); invalid && invalid->holds())
    return Progress{.phase = Phase::kInvalid, .why = invalid->words()};
  if (ready && ready->reason == "Failed")
    return Progress{.phase = Phase::kFailed, .why = ready->words()};
  if (!ready || !ready->holds())
    return Progress{.phase = Phase::kPending, .why = awaited(status, ready)};

  Progress progress{.phase = Phase::kReady};
  OSM_TRY(progress.certificate_pem, bytes_of(status, "certificate"));
  OSM_TRY(progress.ca_pem, bytes_of(status, "ca"));
  if (progress.certificate_pem.empty())
    return Progress{.phase = Phase::kPending, .why = "it is ready, without a certificate"};
  return progress;
}

}  // namespace osm::inline v1::cert_manager
