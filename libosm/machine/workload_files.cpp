#include "machine/workload_files.hpp"

#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <unistd.h>

#include <memory>
#include <string_view>
#include <utility>

#include "base/openssl.hpp"
#include "base/read_file.hpp"
#include "base/write_file.hpp"

namespace osm::inline v1::machine {
namespace {

constexpr const char* kWorkloadCertificate = "workload_cert.pem";
constexpr const char* kWorkloadKey = "workload_key.pem";
constexpr const char* kWorkloadRoots = "workload_roots.pem";
constexpr const char* kGrpcBootstrap = "grpc_bootstrap.json";
// The controller decides on less.
constexpr std::chrono::hours kLongestWorkloadLife{24 * 365 * 10};

std::string content_of(const std::string& path) {
  Result<std::string> text = read_file(path, kMaxFileBytes);
  return text.ok() ? *std::move(text) : std::string();
}

// True if the certificate has this URI SAN.
bool has_uri(X509& leaf, const std::string& uri) {
  const std::unique_ptr<GENERAL_NAMES, decltype(&GENERAL_NAMES_free)> names(
      static_cast<GENERAL_NAMES*>(X509_get_ext_d2i(&leaf, NID_subject_alt_name, nullptr, nullptr)),
      &GENERAL_NAMES_free);
  for (int i = 0; names && i < sk_GENERAL_NAME_num(names.get()); ++i) {
    const GENERAL_NAME* name = sk_GENERAL_NAME_value(names.get(), i);
    if (name->type != GEN_URI) continue;
    const ASN1_STRING* text = name->d.uniformResourceIdentifier;
    const auto* bytes = reinterpret_cast<const char*>(ASN1_STRING_get0_data(text));
    if (uri == std::string_view(bytes, static_cast<std::size_t>(ASN1_STRING_length(text))))
      return true;
  }
  return false;
}

// False too if the files are damaged, or a killed process left a key beside another certificate.
bool is_current(const WorkloadFiles& held, const certificate::Subject& subject,
                const Clock& clock) {
  const openssl::CleanErrorQueue clean;
  const auto chain = openssl::parse_certificates(held.chain_pem);
  if (!chain.ok() || chain->empty()) return false;
  X509& leaf = *chain->front();
  const openssl::Key parsed(PEM_read_bio_PrivateKey(openssl::reader_of(held.key.pem()).get(),
                                                    nullptr, openssl::no_passphrase, nullptr));
  if (!parsed || X509_check_private_key(&leaf, parsed.get()) != 1) return false;
  const WallTime begin = openssl::not_before(leaf);
  const WallTime end = openssl::not_after(leaf);
  if (clock.wall_now() >= begin + (end - begin) / 3 * 2) return false;
  return has_uri(leaf, subject.spiffe_id.str());
}

}  // namespace

std::optional<WorkloadFiles> read_workload_files(const std::string& directory) {
  const std::string prefix = directory + '/';
  if (::access((prefix + kGrpcBootstrap).c_str(), F_OK) != 0) return std::nullopt;
  return WorkloadFiles{certificate::PrivateKey(content_of(prefix + kWorkloadKey)),
                       content_of(prefix + kWorkloadCertificate),
                       content_of(prefix + kWorkloadRoots)};
}

Result<WorkloadFiles> obtain_workload_files(const WorkloadFiles& held, const RenewalState& state,
                                            const Clock& clock) {
  const auto& [files, told, renewed, timeout] = state;
  if (told.workload_spiffe_id().empty())
    return Error{ErrorCode::kUnavailable,
                 "the controller at " + files.controller +
                     " certifies no workloads' keys: it is of an older version. Update it, or "
                     "remove grpc_bootstrap.json"};
  const certificate::Subject subject{
      CommonName(told.workload_common_name()),
      SpiffeId(told.workload_spiffe_id()),
      certificate::Usage::kWorkload,
      {told.workload_dns_names().begin(), told.workload_dns_names().end()}};
  const std::string& roots =
      told.trust_bundle_pem().empty() ? files.trust_bundle_pem : told.trust_bundle_pem();
  WorkloadFiles fresh;
  if (held.roots_pem != roots) fresh.roots_pem = roots;
  if (!renewed && is_current(held, subject, clock)) return fresh;

  OSM_TRY(const certificate::KeyParameters key, key_parameters(told));
  OSM_TRY(certificate::KeyAndRequest made, certificate::make_request(subject, key));
  RenewalRequest request;
  request.set_workload_request_pem(made.request_pem);
  OSM_TRY(const RenewalResponse answer, ask_controller(files, request, timeout));
  OSM_TRY(const certificate::Certificate certificate,
          certificate::check_answer({.subject = subject,
                                     .request_pem = made.request_pem,
                                     .chain_pem = answer.workload_certificate_chain_pem(),
                                     .trust_bundle_pem = answer.trust_bundle_pem(),
                                     .validity = kLongestWorkloadLife},
                                    clock));
  fresh.key = std::move(made.key);
  fresh.chain_pem = certificate.chain_pem;
  fresh.roots_pem = answer.trust_bundle_pem();
  return fresh;
}

// The roots come first: a peer's new certificate may need them.
Result<bool> write_workload_files(const std::string& directory, const ProxyFiles& files,
                                  const WorkloadFiles& fresh) {
  const auto write = [&](const char* name, std::string_view content) {
    return write_file({directory + '/' + name, 0600, FileOwner{files.owner, files.owner}, content});
  };
  if (!fresh.roots_pem.empty()) OSM_TRY(write(kWorkloadRoots, fresh.roots_pem));
  if (!fresh.chain_pem.empty()) {
    OSM_TRY(write(kWorkloadKey, fresh.key.pem()));
    OSM_TRY(write(kWorkloadCertificate, fresh.chain_pem));
  }
  return !fresh.roots_pem.empty() || !fresh.chain_pem.empty();
}

}  // namespace osm::inline v1::machine
