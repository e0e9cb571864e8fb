// The controller's answers as people read them.
#pragma once

#include <boost/json/value.hpp>
#include <string>

namespace osm::cli {

std::string show_proxies(const boost::json::value& answer);
// Proxies with a certificate, and participants, of the same answer as show_proxies().
std::string show_expected(const boost::json::value& answer);
std::string show_participants(const boost::json::value& answer);
// Ports of the Services of a proxy.
std::string show_services(const boost::json::value& answer);
std::string show_policies(const boost::json::value& answer);
std::string show_service(const boost::json::value& answer);
std::string show_identity(const boost::json::value& answer);
std::string show_policy(const boost::json::value& answer);
std::string show_explanation(const boost::json::value& answer);
std::string show_problems(const boost::json::value& answer);
std::string show_providers(const boost::json::value& answer);
std::string show_certificates(const boost::json::value& answer);
std::string show_roots(const boost::json::value& answer);
std::string show_denied(const boost::json::value& answer);
// Findings of `osm check`: the faults first.
std::string show_check(const boost::json::value& findings);
std::string show_graph(const boost::json::value& answer);
std::string show_namespaces(const boost::json::value& answer);
std::string show_meshes(const boost::json::value& answer);
// A row for each of {"namespace","name","version"}.
std::string show_objects(const boost::json::value& answer);
std::string show_status(const boost::json::value& answer);

}  // namespace osm::cli
