#include <fmt/format.h>

#include <algorithm>
#include <boost/json/value.hpp>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/json.hpp"
#include "inject/admission.hpp"
#include "model/claims.hpp"
#include "model/spec_tables.hpp"
#include "osm/inject/validator.hpp"
#include "osm/spec/object_mesh_spec.hpp"
#include "spec/decode.hpp"

namespace osm::inline v1::inject {
namespace {

namespace json = boost::json;

constexpr std::string_view kLastAdded =
    "xxxxx";  // length of the suffix that a server adds to generateName

json::value spec_of(const json::object& object) {
  const auto* spec = object.if_contains("spec");
  return spec == nullptr ? json::value() : *spec;
}

ObjectKey key_of(const AdmissionRequest& request) {
  return {GroupKind{request.group, request.kind}, request.ns, request.name};
}

// The written object in the form that a store will return.
Object object_of(const AdmissionRequest& request, const json::object& written) {
  const json::object& metadata = v1::map_at(written, "metadata");
  Object object;
  object.key = key_of(request);
  if (object.key.name.empty()) object.key.name = text_at(metadata, "name");
  if (object.key.name.empty())
    object.key.name = text_at(metadata, "generateName").append(kLastAdded);
  object.api_version =
      request.group.empty() ? request.version : request.group + '/' + request.version;
  for (const auto& [key, value] : v1::map_at(metadata, "labels"))
    if (const auto* text = value.if_string())
      object.labels.emplace(std::string(key), std::string(text->data(), text->size()));
  object.document = std::make_shared<const json::value>(written);
  return object;
}

// Absent: there is no such object, or it is invalid.
template <class T>
std::optional<T> decoded(const AdmissionRequest& request, const json::object& written,
                         spec::Decoded<T> (*decode)(const Object&)) {
  return written.empty() ? std::nullopt : decode(object_of(request, written)).value;
}

// An invalid object that was stored before must remain deletable: an author who only changes its
// metadata, or removes its finalizers, need not repair it.
bool leaves_the_spec(const AdmissionRequest& request) {
  if (v1::map_at(request.object, "metadata").if_contains("deletionTimestamp") != nullptr)
    return true;
  return request.operation == "UPDATE" && spec_of(request.object) == spec_of(request.old_object);
}

std::string line_of(const Problem& problem) {
  std::string line = problem.field;
  line.append(line.empty() ? "" : ": ").append(problem.cause);
  return line.append(" [").append(error_code_text(problem.code)).append("]");
}

// One CA and its successor.
constexpr std::size_t kMostInUse = 2;

// True of a value, or a pointer, that is there and has this role.
constexpr auto in_use = [](const auto& root) { return root && root->role != RootRole::kInactive; };
constexpr auto active = [](const auto& root) { return root && root->role == RootRole::kActive; };

// Adds the reasons to refuse the change of a MeshRootCertificate, given the declared ones, this one
// among them (docs/adr/0024). The decoder checks an object by itself. `before` and `after`: absent
// if there is none, or if it is invalid.
void check_change(const ObjectKey& key, const std::optional<MeshRootCertificate>& before,
                  const std::optional<MeshRootCertificate>& after,
                  const SharedList<MeshRootCertificate>& declared, std::vector<Problem>& problems) {
  const auto refuse = [&](const char* field, std::string cause) {
    problems.push_back({ErrorCode::kInvalidField, key, "", 0, field, std::move(cause)});
  };
  if (before && after) {
    if (before->trust_domain != after->trust_domain)
      refuse(
          "spec.trustDomain",
          "cannot be changed from " +
              (before->trust_domain == TrustDomain() ? "the mesh's" : before->trust_domain.str()) +
              "; declare another MeshRootCertificate");
    if (!(before->provider == after->provider))
      refuse("spec.provider",
             "cannot be changed: the mesh would lose the CA that it trusts; declare another "
             "MeshRootCertificate, and make this one inactive when that one signs");
  }

  std::vector<std::string> others;
  bool other_active = false;
  for (const auto& other : declared) {
    if (other->name == key.name || !in_use(other)) continue;
    others.push_back(other->name);
    other_active = other_active || active(other);
  }
  if (in_use(after) && !in_use(before) && others.size() >= kMostInUse)
    refuse("spec.role",
           fmt::format("at most two may be other than inactive, the CA and the one that takes over "
                       "from it; make one of these inactive first: {}",
                       fmt::join(others, ", ")));
  if (active(before) && !active(after) && !other_active)
    refuse(after ? "spec.role" : "",
           "is the only active one, and the mesh needs a CA that signs; declare the next one "
           "active first, and wait until status.state of that one is signing");
}

class MeshValidator final : public Validator {
 public:
  explicit MeshValidator(const ValidatorOptions& options)
      : mesh_spec_(options.mesh_spec),
        store_(options.store),
        metrics_(options.metrics),
        config_key_{kinds::kMeshConfig, options.osm_namespace, spec::kMeshConfigName},
        kinds_(options.kinds) {}

  AdmissionAnswer review(std::string_view body) const override {
    return answer_admission(body, [this](const AdmissionRequest& request) {
      AdmissionResponse response = decide(request);
      // Count known kinds only: users choose kind names, and label values must be bounded.
      metrics_.add(kAdmissionWebhookResponse,
                   {{"kind", kind_of(request) != nullptr ? request.kind : "other"},
                    {"success", response.allowed ? "true" : "false"}},
                   1);
      return response;
    });
  }

 private:
  AdmissionResponse decide(const AdmissionRequest& request) const {
    if (request.operation == "DELETE") return decide_deletion(request);
    if (request.operation != "CREATE" && request.operation != "UPDATE")
      return refuse(ErrorCode::kInvalidArgument, request,
                    "operation " + request.operation + " is not validated here");
    const spec::Kind* kind = kind_of(request);
    if (kind == nullptr) return refuse(ErrorCode::kUnknownKind, request, unknown_kind());

    const Object object = object_of(request, request.object);
    const std::string domain = cluster_domain();
    spec::DecodedPolicy decoded;
    if (kind->decode != nullptr) decoded = kind->decode(object, domain);
    std::vector<Problem> problems =
        kind->check != nullptr ? kind->check(object, domain) : std::move(decoded.problems);
    add_claim_conflicts(object, *kind, decoded.value, problems);
    add_root_conflicts(request, problems);
    AdmissionResponse response;
    std::vector<Problem> refusals;
    const bool lenient = leaves_the_spec(request);
    for (Problem& problem : problems) {
      if (lenient || problem.code == ErrorCode::kUnusedField) {
        response.warnings.push_back(line_of(problem));
      } else {
        refusals.push_back(std::move(problem));
      }
    }
    if (object.key.is(kinds::kMeshConfig) && object.key != config_key_)
      response.warnings.push_back("has no effect: the mesh reads " + config_key_.str());
    if (object.key.is(kinds::kMeshRootCertificate) && object.key.ns != config_key_.ns)
      response.warnings.push_back("has no effect: CAs of the mesh are declared in namespace " +
                                  config_key_.ns);
    // Somebody who denies a stolen identity must not believe that it is refused.
    if (object.key.is(kinds::kDenylist) && object.key.ns != config_key_.ns && !lenient)
      refusals.push_back({ErrorCode::kInvalidField, object.key, "", 0, "metadata.namespace",
                          "has no effect there: create it in namespace " + config_key_.ns});
    if (!refusals.empty()) explain(object.key, refusals, response);
    return response;
  }

  // Any stored object may be deleted, except the CA that signs, and the MeshConfig without an
  // annotation that says so.
  AdmissionResponse decide_deletion(const AdmissionRequest& request) const {
    std::vector<Problem> refusals;
    add_root_conflicts(request, refusals);
    check_config_deletion(request, refusals);
    AdmissionResponse response;
    if (!refusals.empty()) explain(key_of(request), refusals, response);
    return response;
  }

  static AdmissionResponse refuse(ErrorCode code, const AdmissionRequest& request,
                                  const std::string& why) {
    return AdmissionResponse::refused({code, key_of(request).str() + ": " + why});
  }

  static void explain(const ObjectKey& key, const std::vector<Problem>& refusals,
                      AdmissionResponse& response) {
    response.allowed = false;
    response.code = 422;
    response.message = key.str() + " is refused: ";
    for (const Problem& problem : refusals) {
      response.message.append(&problem == &refusals.front() ? "" : "; ").append(line_of(problem));
      response.causes.push_back({problem.field, problem.cause});
    }
  }

  // Null: this webhook does not validate the kind.
  const spec::Kind* kind_of(const AdmissionRequest& request) const {
    const spec::Kind* kind = spec::find_kind(kinds_, {request.group, request.kind});
    return kind != nullptr && is_checked(*kind) ? kind : nullptr;
  }

  std::string cluster_domain() const { return mesh_spec_.get_mesh_config().proxy.cluster_domain; }

  static bool is_checked(const spec::Kind& kind) {
    return kind.check != nullptr || kind.decode != nullptr;
  }

  std::string unknown_kind() const {
    std::set<std::string_view> names;
    for (const spec::Kind& kind : kinds_)
      if (is_checked(kind)) names.insert(kind.name.kind);
    return fmt::format(
        "this webhook validates {}; take the kind out of the ValidatingWebhookConfiguration's "
        "rules",
        fmt::join(names, ", "));
  }

  // Adds conflicts with other objects that have one of its claims. References to missing objects
  // are no fault: those may follow later.
  // `policy`: the decoded object; null if its kind has no decoder, or if it is invalid.
  void add_claim_conflicts(const Object& object, const spec::Kind& kind,
                           const std::shared_ptr<const Policy>& policy,
                           std::vector<Problem>& problems) const {
    const std::string domain = cluster_domain();
    if (object.key.is(kinds::kTrafficSplit)) {
      const auto split = spec::decode_traffic_split(object, domain).value;
      if (split) add_taken(*split, mesh_spec_.list_traffic_splits(), problems);
      return;
    }
    // A second Retry of one destination is admitted: the first by name is used.
    if (store_ == nullptr || !policy || object.key.is(kinds::kRetry)) return;
    if (model::links_of(*policy).claims.empty()) return;
    SharedList<Policy> others;  // few
    for (const auto& stored : store_->list(object.key.group_kind()))
      if (stored->key.ns == object.key.ns)
        if (auto other = kind.decode(*stored, domain).value) others.push_back(std::move(other));
    add_taken(*policy, others, problems);
  }

  // Adds a problem for each claim of the object that one of the others has.
  template <class T>
  static void add_taken(const T& object, const SharedList<T>& others,
                        std::vector<Problem>& problems) {
    model::Owners owners;
    std::vector<Problem> theirs;
    for (const auto& other : others)
      if (model::key_of(*other) != model::key_of(object))
        for (const model::Claim& claim : model::links_of(*other).claims)
          owners.take(model::key_of(*other), claim, theirs);
    for (const model::Claim& claim : model::links_of(object).claims)
      owners.take(model::key_of(object), claim, problems);
  }

  void check_config_deletion(const AdmissionRequest& request,
                             std::vector<Problem>& problems) const {
    if (key_of(request) != config_key_) return;
    const json::object& metadata = v1::map_at(request.old_object, "metadata");
    if (text_at(v1::map_at(metadata, "annotations"), spec::kAllowDeletionAnnotation) == "true")
      return;
    problems.push_back(
        {ErrorCode::kInvalidField, config_key_, "", 0, "metadata.annotations",
         std::string("the mesh's settings would no longer be declared; to have the defaults, apply "
                     "it with an empty spec; to delete it, annotate it first with ") +
             spec::kAllowDeletionAnnotation + "=true"});
  }

  void add_root_conflicts(const AdmissionRequest& request, std::vector<Problem>& problems) const {
    if (!key_of(request).is(kinds::kMeshRootCertificate) || request.ns != config_key_.ns) return;
    const auto before = decoded(request, request.old_object, spec::decode_root_certificate);
    const auto after = decoded(request, request.object, spec::decode_root_certificate);
    if (!request.object.empty() && !after) return;  // invalid, and refused for that
    check_change(key_of(request), before, after, mesh_spec_.list_root_certificates(), problems);
  }

  const MeshSpec& mesh_spec_;
  const ObjectStore* const store_;
  MetricsSink& metrics_;
  const ObjectKey config_key_;
  const spec::Kinds kinds_;
};

}  // namespace

std::unique_ptr<Validator> make_validator(const ValidatorOptions& options) {
  return std::make_unique<MeshValidator>(options);
}

}  // namespace osm::inline v1::inject
