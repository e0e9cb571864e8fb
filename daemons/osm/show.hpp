// The controller's answers as people read them.
#pragma once

#include <boost/json/value.hpp>
#include <string>

namespace osm::cli {

std::string show_proxies(const boost::json::value& answer);
std::string show_policy(const boost::json::value& answer);
std::string show_explanation(const boost::json::value& answer);
std::string show_problems(const boost::json::value& answer);
std::string show_certificates(const boost::json::value& answer);
std::string show_roots(const boost::json::value& answer);
std::string show_denied(const boost::json::value& answer);
std::string show_status(const boost::json::value& answer);

}  // namespace osm::cli
