#include "cert_manager/requester.hpp"

#include <algorithm>
#include <array>
#include <boost/json.hpp>
#include <cstdint>
#include <memory>
#include <string_view>
#include <utility>

#include "base/base64.hpp"
#include "base/hex.hpp"
#include "base/json.hpp"
#include "osm/kubernetes/objects.hpp"

namespace osm::inline v1::cert_manager {
namespace {

namespace json = boost::json;
using certificate::Usage;

// cert-manager answers within some ten milliseconds if its CA is local.
constexpr std::chrono::milliseconds kFirstLook{50};
constexpr std::chrono::milliseconds kLastLook{1000};
// No caller waits as long as this, so older requests are abandoned.
constexpr std::chrono::minutes kLeftBehind{10};

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

// A condition of a status, with its message; empty if there is none.
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

Condition condition_of(const json::object& status, std::string_view type) {
  for (const json::value& condition : list_at(status, "conditions"))
    if (text_at(condition, "type") == type)
      return {text_at(condition, "status"), text_at(condition, "reason"),
              text_at(condition, "message")};
  return {};
}

Result<std::string> bytes_of(const json::object& status, const char* field) {
  auto bytes = from_base64(text_at(status, field));
  if (bytes) return *std::move(bytes);
  return Error{ErrorCode::kInvalidSyntax,
               "status." + std::string(field) + " of the CertificateRequest is not base64"};
}

// The step that a pending request waits for.
std::string awaited(const json::object& status, const Condition& ready) {
  if (!ready.words().empty()) return ready.words();
  if (condition_of(status, "Approved").holds())
    return "it is approved, and no issuer has taken it up";
  return "it is not approved: cert-manager does so by itself unless its approver was turned off, "
         "then an approver of your own must";
}

// Labels of our requests in our namespace. Only objects with both are collected.
constexpr const char* kLabels =
    "app.kubernetes.io/name=openservicemesh.io,app.kubernetes.io/component=certificate-request";

const kubernetes::ObjectKind& request_kind() {
  static const kubernetes::ObjectKind kKind{"cert-manager.io", "v1", "certificaterequests",
                                            "CertificateRequest"};
  return kKind;
}

// The object to create.
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

std::string name_of(const IssuerRef& issuer, const std::string& ns) {
  std::string name = issuer.kind + ' ';
  if (issuer.kind != "ClusterIssuer") name += ns + '/';
  name += issuer.name;
  return issuer.group == "cert-manager.io" ? name : name + " of " + issuer.group;
}

bool may_pass(const Error& error) {
  return error.code == ErrorCode::kUnavailable || error.code == ErrorCode::kDeadlineExceeded;
}

}  // namespace

Requester::Requester(const IssuerOptions& options, Sleep sleep)
    : options_(options),
      issuer_name_(name_of(options.issuer, options.osm_namespace)),
      sleep_(std::move(sleep)) {}

Result<Answer> Requester::ask(const certificate::SigningRequest& request) {
  collect_now_and_then();
  const std::string name = new_name();
  // Deletes the request, which may have been created, however this function is left.
  const std::shared_ptr<void> at_end(nullptr, [this, &name](void*) { remove(name); });
  const auto created = kubernetes::create_object(
      options_.cluster, request_kind(),
      request_json(options_.osm_namespace, name, options_.issuer, request));
  if (!created.ok()) return refused_by_server(created.error());
  return wait(name);
}

// The client chooses the name, so that the request can be deleted although the answer was lost.
std::string Requester::new_name() {
  std::array<std::uint8_t, 10> bytes;
  std::lock_guard lock(mutex_);
  for (std::uint8_t& byte : bytes) byte = static_cast<std::uint8_t>(options_.runtime.rng.next());
  return "osm-" + hex_of(bytes);
}

Result<Answer> Requester::wait(const std::string& name) const {
  const SteadyTime end = options_.runtime.clock.steady_now() + options_.deadline;
  std::chrono::milliseconds delay = kFirstLook;
  std::string why = "nobody has looked at it: is cert-manager running?";
  for (;;) {
    const auto left =
        std::chrono::ceil<std::chrono::milliseconds>(end - options_.runtime.clock.steady_now());
    if (left <= std::chrono::milliseconds(0)) return late(name, why);
    sleep_(std::min(delay, left));
    delay = std::min(delay * 2, kLastLook);

    const auto got =
        kubernetes::get_object(options_.cluster, request_kind(), options_.osm_namespace, name);
    if (!got.ok() && may_pass(got.error())) {
      why = got.error().message;
      continue;
    }
    if (!got.ok()) return refused_by_server(got.error());
    OSM_TRY(std::optional<Answer> answer, read(*got, why));
    if (answer) return *std::move(answer);
  }
}

// Result: nullopt while the request is pending; `why` is then the step that it waits for. Failure:
// the final one; kInvalidSyntax: no such object, or a certificate that is not base64.
Result<std::optional<Answer>> Requester::read(const std::string& request, std::string& why) const {
  OSM_TRY(const json::object object, parse_json_object(request, "the CertificateRequest"));
  const json::object& status = map_at(object, "status");
  if (const Condition denied = condition_of(status, "Denied"); denied.holds())
    return Error{ErrorCode::kPermissionDenied,
                 issuer_name_ + ": the request was denied by an approver (" + denied.words() +
                     "); let its policy approve requests of namespace " + options_.osm_namespace};
  if (const Condition invalid = condition_of(status, "InvalidRequest"); invalid.holds())
    return Error{ErrorCode::kInvalidArgument,
                 issuer_name_ + " does not sign such a request (" + invalid.words() + ")"};
  const Condition ready = condition_of(status, "Ready");
  if (ready.reason == "Failed")
    return Error{ErrorCode::kUnavailable,
                 issuer_name_ + " failed to sign (" + ready.words() +
                     "); `kubectl describe` of the issuer and cert-manager's log say more"};
  Answer answer;
  if (ready.holds()) {
    OSM_TRY(answer.certificate_pem, bytes_of(status, "certificate"));
    OSM_TRY(answer.ca_pem, bytes_of(status, "ca"));
    if (!answer.certificate_pem.empty()) return std::optional(std::move(answer));
  }
  why = ready.holds() ? "it is ready, without a certificate" : awaited(status, ready);
  return std::optional<Answer>();
}

Error Requester::late(const std::string& name, const std::string& why) const {
  return {ErrorCode::kUnavailable,
          issuer_name_ + " did not answer CertificateRequest " + options_.osm_namespace + '/' +
              name + " within " + std::to_string(options_.deadline.count()) + " s (" + why + ")"};
}

Error Requester::refused_by_server(const Error& error) const {
  Error out = error.with_context(issuer_name_);
  if (error.code == ErrorCode::kPermissionDenied)
    out.message +=
        "; let this daemon's ServiceAccount create, get, list and delete "
        "certificaterequests.cert-manager.io in " +
        options_.osm_namespace + " (docs/certificates.md#cert-manager)";
  if (error.code == ErrorCode::kNotFound) {
    out.code = ErrorCode::kUnavailable;
    out.message +=
        "; either cert-manager is not installed in this cluster, or somebody deletes our requests";
  }
  return out;
}

void Requester::remove(const std::string& name) const {
  const Status removed =
      kubernetes::delete_object(options_.cluster, request_kind(), options_.osm_namespace, name);
  if (!removed.ok() && removed.error().code != ErrorCode::kNotFound)
    options_.runtime.log.debug("a CertificateRequest is left for later",
                               {{"request", name}, {"cause", removed.error().message}});
}

// Deletes requests of processes that were killed while they waited.
void Requester::collect_now_and_then() {
  {
    std::lock_guard lock(mutex_);
    const SteadyTime now = options_.runtime.clock.steady_now();
    if (collected_ && now - *collected_ < kLeftBehind) return;
    collected_ = now;
  }
  const auto old =
      kubernetes::list_older_objects(options_.cluster, request_kind(), options_.osm_namespace,
                                     kLabels, options_.runtime.clock.wall_now() - kLeftBehind);
  if (!old.ok()) {
    options_.runtime.log.debug("CertificateRequests cannot be listed",
                               {{"cause", old.error().message}});
    return;
  }
  for (const std::string& name : *old) remove(name);
  if (!old->empty())
    options_.runtime.log.info("CertificateRequests that were left behind are deleted",
                              {{"count", std::to_string(old->size())}});
}

}  // namespace osm::inline v1::cert_manager
