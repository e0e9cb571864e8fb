// A class's configuration taken apart into what one object can concern: clusters, assignments,
// filter chains and virtual hosts, each with its bytes.
#pragma once

#include <map>
#include <set>
#include <string>

#include "security/random_mesh.hpp"
#include "translate/pack_any.hpp"
#include "translate/snapshots.hpp"

namespace osm::security_test {

// "RDS rds-outbound.80 outbound_virtual-host|x0.n1.svc.cluster.local" → bytes. What encloses chains
// and virtual hosts is an atom too, under the resource's name alone.
using Atoms = std::map<std::string, std::string>;

template <class Message>
Message unpacked(const translate::EncodedResource& resource) {
  google::protobuf::Any any;
  REQUIRE(any.ParseFromString(resource.any));
  return translate_test::unpack<Message>(any);
}

template <class Message, class Parts>
void take_apart(Atoms& atoms, const std::string& name, Message whole, const Parts& parts) {
  for (const auto& part : parts(whole))
    atoms[name + ' ' + part.name()] = translate::deterministic_bytes(part);
  parts(whole).Clear();
  atoms[name] = translate::deterministic_bytes(whole);
}

inline Atoms atoms_of(const model::MeshSnapshot& mesh, const translate::ProxyClass& proxy_class) {
  Atoms atoms;
  for (XdsType type : kXdsTypes)
    for (const auto& input : translate::inputs_for(mesh, proxy_class, type)) {
      const translate::EncodedResource resource = input->encode();
      const std::string name = std::string(xds_type_text(type)) + ' ' + resource.name;
      if (type == XdsType::kListener) {
        take_apart(atoms, name, unpacked<translate_test::Listener>(resource),
                   [](auto& whole) -> auto& { return *whole.mutable_filter_chains(); });
      } else if (type == XdsType::kRoute) {
        take_apart(atoms, name, unpacked<translate_test::RouteConfiguration>(resource),
                   [](auto& whole) -> auto& { return *whole.mutable_virtual_hosts(); });
      } else {
        atoms[name] = resource.any;
      }
    }
  return atoms;
}

// Names of the atoms that differ. An enclosing resource that comes or goes is no difference of its
// own: its contents are. The chain that leads nowhere comes and goes with its listener.
inline std::set<std::string> difference(const Atoms& before, const Atoms& after) {
  std::set<std::string> out;
  const auto encloses = [](const std::string& name) {
    if (name.ends_with(" outbound-nowhere")) return true;
    return (name.starts_with("LDS") || name.starts_with("RDS")) &&
           name.find(' ') == name.rfind(' ');
  };
  const auto compare = [&](const Atoms& a, const Atoms& b) {
    for (const auto& [name, bytes] : a) {
      const auto at = b.find(name);
      if (at == b.end() ? !encloses(name) : at->second != bytes) out.insert(name);
    }
  };
  compare(before, after);
  compare(after, before);
  return out;
}

// True if the atom is a way to a service of namespace `ns`, and nothing else.
inline bool leads_to(const std::string& atom, const std::string& ns) {
  const std::string type = atom.substr(0, 3);
  const std::string rest = atom.substr(4);
  if (type == "CDS" || type == "EDS")
    return rest.starts_with(ns + '/') && !rest.ends_with("|local");
  if (type == "LDS") return rest.find(" outbound_" + ns + '/') != rest.npos;
  return rest.starts_with("rds-outbound.") && rest.find(" outbound_virtual-host|") != rest.npos &&
         rest.ends_with('.' + ns + ".svc.cluster.local");
}

}  // namespace osm::security_test
