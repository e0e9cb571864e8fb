#include <arpa/inet.h>

#include <algorithm>

#include "explain/call.hpp"
#include "model/egress.hpp"
#include "model/ip_address.hpp"
#include "osm/values/egress.hpp"

namespace osm::inline v1::explain {
namespace {

using model::EgressGrant;

constexpr const char* kEgressStage = "egress";

// One grant at the dialled port.
struct Opening {
  const EgressGrant* grant;
  EgressProtocol protocol;
};

bool is_tcp(const Opening& opening) {
  return opening.protocol == EgressProtocol::kTcp ||
         opening.protocol == EgressProtocol::kTcpServerFirst;
}

// The address as a network; nullopt: a host name, whose address the application looks up.
std::optional<Ipv4Network> network_of(const std::string& host) {
  in_addr parsed{};
  if (!model::is_ipv4(host) || inet_pton(AF_INET, host.c_str(), &parsed) != 1) return std::nullopt;
  return Ipv4Network{ntohl(parsed.s_addr), 32};
}

bool opens_to(const EgressGrant& grant, const std::optional<Ipv4Network>& address) {
  if (!grant.networks) return true;
  return address && std::any_of(grant.networks->begin(), grant.networks->end(),
                                [&](const auto& outer) { return model::holds(outer, *address); });
}

std::string host_name(const CallQuestion& question) {
  return request_name(question.host, question.port);
}

bool names(const EgressGrant& grant, const std::string& host, Port port) {
  return grant.hosts && std::any_of(grant.hosts->begin(), grant.hosts->end(), [&](const auto& one) {
           return (!one.port || *one.port == port) && model::holds(one.name, host);
         });
}

bool has_host_at(const EgressGrant& grant, Port port) {
  return grant.hosts && std::any_of(grant.hosts->begin(), grant.hosts->end(), [&](const auto& one) {
           return !one.port || *one.port == port;
         });
}

class Decision {
 public:
  Decision(const ExplainedCall& call, const std::string& host)
      : call_(call), address_(network_of(host)), dialled_(host), host_(host_name(call.question)) {
    if (const auto client = call.mesh.clients.find(call.source))
      for (const EgressGrant& grant : client->egress)
        for (const EgressPort& port : grant.ports) {
          if (port.number != call.question.port) continue;
          (opens_to(grant, address_) ? here_ : elsewhere_).push_back({&grant, port.protocol});
        }
  }

  // The chain of the narrowest network has all that the grants of wider ones allow, so the grants
  // that reach the address decide together.
  ExplainedWay way() const {
    ExplainedWay out;
    out.port = call_.question.port;
    const auto tcp = std::find_if(here_.begin(), here_.end(), is_tcp);
    if (tcp != here_.end())
      return allowed(std::move(out), *tcp, "it opens the port as TCP, so all passes");
    const bool http = has(EgressProtocol::kHttp);
    if (has(EgressProtocol::kHttps) && !http) return tls(std::move(out));
    if (http) return request(std::move(out));
    return refusal(nothing_opens(), 0);
  }

 private:
  bool has(EgressProtocol protocol) const {
    return std::any_of(here_.begin(), here_.end(),
                       [&](const Opening& one) { return one.protocol == protocol; });
  }

  // A host that is written in full, without networks, is looked up by the sidecar.
  ExplainedWay allowed(ExplainedWay out, const Opening& by, std::string text) const {
    const EgressGrant& grant = *by.grant;
    const bool full = !is_tcp(by) && !grant.networks && grant.hosts &&
                      std::any_of(grant.hosts->begin(), grant.hosts->end(),
                                  [&](const EgressHost& one) { return one.name == host_; });
    if (full) {
      text += "; the sidecar looks the host up, and the dialled address does not matter";
      out.addresses = {host_};
    } else if (address_) {
      out.addresses = {dialled_};
    }
    out.answer = {.allowed = true};
    out.steps.push_back(step(kEgressStage, StepEffect::kAllows, std::move(text), grant.origin));
    return out;
  }

  ExplainedStep refused_by(const EgressGrant& grant, std::string field, std::string text) const {
    return step(kEgressStage, StepEffect::kDenies, std::move(text), grant.origin.object,
                std::move(field));
  }

  ExplainedWay tls(ExplainedWay out) const {
    for (const Opening& one : here_)
      if (one.protocol == EgressProtocol::kHttps &&
          (!one.grant->hosts || names(*one.grant, host_, call_.question.port)))
        return allowed(std::move(out), one,
                       "it allows TLS connections that ask for the name " + host_);
    return refusal(refused_by(*here_.front().grant, "spec.hosts",
                              "it opens the port for TLS, but not for the name " + host_ +
                                  ": add the host to an Egress of " + call_.source.str()),
                   0);
  }

  // A request without a route is not found, whatever upgrade it asks for.
  ExplainedWay request_to(const Opening& by, ExplainedWay out, std::string text) const {
    if (const auto why = refused_upgrade(call_.question))
      return refusal(step(kEgressStage, StepEffect::kDenies, *why), kForbidden);
    return allowed(std::move(out), by, std::move(text));
  }

  ExplainedWay request(ExplainedWay out) const {
    const std::string& path = call_.question.path;
    const RequestParts parts{call_.question, path.substr(0, path.find('?'))};
    const EgressGrant* nearest = nullptr;  // whose match lacks the fewest parts
    std::vector<std::string> lacked;
    for (const Opening& one : here_) {
      if (one.protocol != EgressProtocol::kHttp || !names(*one.grant, host_, call_.question.port))
        continue;
      if (!one.grant->routes)
        return request_to(one, std::move(out), "it allows every request to " + host_);
      if (nearest == nullptr) nearest = one.grant;
      for (const RoutePolicy& route : *one.grant->routes) {
        auto lacks = lacking(route, parts);
        if (lacks.empty())
          return request_to(one, std::move(out),
                            "it allows requests to " + host_ + " by match " + route.name +
                                " of HTTPRouteGroup " + route.group.str());
        if (!lacked.empty() && lacks.size() >= lacked.size()) continue;
        nearest = one.grant;
        lacked = std::move(lacks);
      }
    }
    if (nearest != nullptr) {
      std::string why;
      for (const std::string& part : lacked) why += (why.empty() ? ": " : ", and ") + part;
      return refusal(refused_by(*nearest, "spec.matches",
                                "it allows some requests to " + host_ +
                                    ", but none of its HTTPRouteGroups matches this one" + why),
                     kNotFound);
    }
    const bool any_host =  // else Envoy has no chain for the port
        std::any_of(here_.begin(), here_.end(), [&](const Opening& one) {
          return one.protocol == EgressProtocol::kHttp &&
                 has_host_at(*one.grant, call_.question.port);
        });
    return refusal(refused_by(*here_.front().grant, "spec.hosts",
                              "it opens the port, but not for the host " + host_ +
                                  ": add the host to an Egress of " + call_.source.str()),
                   any_host ? kNotFound : 0);
  }

  ExplainedStep nothing_opens() const {
    const std::string port = std::to_string(number(call_.question.port));
    if (!elsewhere_.empty())
      return refused_by(*elsewhere_.front().grant, "spec.ipAddresses",
                        "it opens port " + port +
                            " of other addresses only: add the address to "
                            "an Egress of " +
                            call_.source.str());
    return step(kEgressStage, StepEffect::kDenies,
                "the call leaves the mesh, egress is off (MeshConfig's "
                "spec.traffic.enableEgress), and no Egress opens port " +
                    port + " to " + call_.source.str() + ": add one to namespace " +
                    call_.source.ns);
  }

  const ExplainedCall& call_;
  const std::optional<Ipv4Network> address_;
  const std::string dialled_, host_;
  std::vector<Opening> here_, elsewhere_;
};

}  // namespace

ExplainedWay explain_egress(const ExplainedCall& call, const std::string& host) {
  return Decision(call, host).way();
}

}  // namespace osm::inline v1::explain
