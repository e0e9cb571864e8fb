#include "inject/exclusions.hpp"

#include <fmt/format.h>

#include <boost/algorithm/string/classification.hpp>
#include <boost/algorithm/string/split.hpp>
#include <boost/algorithm/string/trim.hpp>
#include <string>
#include <utility>
#include <vector>

#include "base/numbers.hpp"
#include "inject/interception.hpp"
#include "inject/pod_names.hpp"
#include "model/machine_names.hpp"
#include "osm/object.hpp"
#include "spec/yaml.hpp"

namespace osm::inline v1::inject {
namespace {

using spec::Field;

constexpr std::size_t kMaxListed = 256;  // ports or networks of one annotation

// Items of an annotation's comma list.
std::vector<std::string> list_of(const Field& annotation) {
  std::vector<std::string> items;
  const std::string text = annotation.text().value_or("");
  if (text.find_first_not_of(" \t") == std::string::npos) return items;
  boost::split(items, text, boost::is_any_of(","));
  for (std::string& item : items) boost::trim_if(item, boost::is_any_of(" \t"));
  if (items.size() > kMaxListed) {
    annotation.refuse(fmt::format("has {} entries, at most {}", items.size(), kMaxListed),
                      ErrorCode::kTooLarge);
    items.clear();
  }
  return items;
}

void add_ports(const Field& annotation, std::vector<Port>& ports) {
  for (const std::string& item : list_of(annotation)) {
    const auto port = port_of(item);
    if (!port) {
      annotation.refuse(fmt::format("'{}' is not a port: list ports from 1 to 65535, like 80,443",
                                    spec::shortened(item, 64)));
      return;
    }
    ports.push_back(*port);
  }
}

// Adds networks or interfaces; check_interception() validates them.
void add_texts(const Field& annotation, std::vector<std::string> InterceptionOptions::*member,
               InterceptionOptions& options) {
  InterceptionOptions alone;
  alone.*member = list_of(annotation);
  if (const Status checked = check_interception(alone); !checked.ok()) {
    annotation.refuse(checked.error().message);
    return;
  }
  const auto& added = alone.*member;
  (options.*member).insert((options.*member).end(), added.begin(), added.end());
}

template <class T>
void append(std::vector<T>& to, const std::vector<T>& added) {
  to.insert(to.end(), added.begin(), added.end());
}

}  // namespace

void add_exclusions(const TrafficExclusions& mesh, InterceptionOptions& options) {
  append(options.inbound_excluded, mesh.inbound_ports);
  append(options.outbound_excluded, mesh.outbound_ports);
  append(options.inbound_excluded_networks, mesh.inbound_ip_ranges);
  append(options.outbound_excluded_networks, mesh.outbound_ip_ranges);
  append(options.outbound_included_networks, mesh.outbound_included_ip_ranges);
  append(options.excluded_interfaces, mesh.network_interfaces);
}

void add_exclusions(const Field& annotations, InterceptionOptions& options) {
  add_ports(annotations[kInboundPortsAnnotation], options.inbound_excluded);
  add_ports(annotations[kOutboundPortsAnnotation], options.outbound_excluded);
  add_texts(annotations[kInboundRangesAnnotation], &InterceptionOptions::inbound_excluded_networks,
            options);
  add_texts(annotations[kOutboundRangesAnnotation],
            &InterceptionOptions::outbound_excluded_networks, options);
  add_texts(annotations[kIncludedRangesAnnotation],
            &InterceptionOptions::outbound_included_networks, options);
  add_texts(annotations[kInterfacesAnnotation], &InterceptionOptions::excluded_interfaces, options);
}

Result<InterceptionOptions> machine_interception(const TrafficExclusions& mesh,
                                                 const Object& machine) {
  InterceptionOptions options;
  add_exclusions(mesh, options);
  spec::Findings findings;
  const Field annotations = Field(machine.document.get(), "", findings)["metadata"]["annotations"];
  add_exclusions(annotations, options);
  if (const Field dns = annotations[model::kDnsAnnotation]; dns.present()) {
    options.dns = dns.text() == model::kDnsEnabled;
    if (!options.dns) dns.refuse(model::kDnsChoice);
  }
  for (const Problem& problem : std::move(findings).take(machine.key)) {
    return Error{problem.code, problem.object.str() + ": " + problem.field + ": " + problem.cause};
  }
  return options;
}

}  // namespace osm::inline v1::inject
