#include "cert_manager/request.hpp"

#include <boost/json.hpp>
#include <optional>
#include <string_view>
#include <utility>

#include "base/base64.hpp"
#include "base/json.hpp"

namespace osm::inline v1::cert_manager {
namespace {

namespace json = boost::json;
using certificate::Usage;

constexpr std::size_t kMaxQuoted = 1024;  // limit of a condition's message

// The usages that certificate::check_answer() requires, and that approvers' policies usually
// permit.
json::array usages_of(Usage usage) {
  json::array usages{"digital signature", "key encipherment"};
  if (usage == Usage::kWorkload || usage == Usage::kController || usage == Usage::kWebhook)
    usages.emplace_back("server auth");
  if (usage == Usage::kWorkload || usage == Usage::kProxy || usage == Usage::kGateway)
    usages.emplace_back("client auth");
  return usages;
}

// A condition of a status, with its message.
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
  for (const json::value& condition : list_at(status, "conditions"))
    if (text_at(condition, "type") == type)
      return Condition{text_at(condition, "status"), text_at(condition, "reason"),
                       text_at(condition, "message")};
  return std::nullopt;
}

Result<std::string> bytes_of(const json::object& status, const char* field) {
  auto bytes = from_base64(text_at(status, field));
  if (bytes) return *std::move(bytes);
  return Error{ErrorCode::kInvalidSyntax,
               "status." + std::string(field) + " of the CertificateRequest is not base64"};
}

// The step that a pending request waits for.
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
  OSM_TRY(const json::object object, parse_json_object(json, "the CertificateRequest"));
  const json::object& status = map_at(object, "status");

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
