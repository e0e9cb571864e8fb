// An admission webhook as the HTTP server of a daemon serves it.
#pragma once

#include <functional>
#include <string_view>

#include "osm/inject/admission.hpp"
#include "osm/net/http.hpp"

namespace osm::daemon {

// Result: a handler that has `review` answer bodies of type application/json, and refuses others
// with 415: no page of a browser can send that type unasked.
net::Handler make_webhook(std::function<AdmissionAnswer(std::string_view body)> review);

}  // namespace osm::daemon
