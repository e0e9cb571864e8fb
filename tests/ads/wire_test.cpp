// Text that is not UTF-8 is refused, and long error messages are cut.
//
// Requests as hostile bytes; what well-formed ones mean is in session_test.cpp and
// session_delta_test.cpp, and tests/fuzz compares every field with protobuf's own parser.
#include "ads/wire.hpp"

#include <doctest/doctest.h>

#include <string>

#include "envoy/service/discovery/v3/discovery.pb.h"

using namespace osm;

namespace {

const std::string kNotText = "bookstore\xff";

std::string with_error(std::string message) {
  envoy::service::discovery::v3::DiscoveryRequest request;
  request.mutable_error_detail()->set_message(std::move(message));
  return request.SerializeAsString();
}

}  // namespace

TEST_SUITE("ads::parse_request") {
  TEST_CASE("text that is not UTF-8 makes no request, wherever it stands") {
    // Field by field as protobuf's wire format has them: it would not write such text itself.
    for (const char field : {1, 3, 4, 5}) {
      const std::string bytes{static_cast<char>(field << 3 | 2),
                              static_cast<char>(kNotText.size())};
      const auto request = ads::parse_request(bytes + kNotText);
      REQUIRE_FALSE(request.ok());
      CHECK(request.error().code == ErrorCode::kInvalidArgument);
    }
    for (const char field : {2, 3, 4, 6}) {
      const std::string bytes{static_cast<char>(field << 3 | 2),
                              static_cast<char>(kNotText.size())};
      CHECK_FALSE(ads::parse_delta_request(bytes + kNotText).ok());
    }
  }

  TEST_CASE("a long refusal is cut, and not within a character") {
    std::string message = "x";
    for (int i = 0; i < 5000; ++i) message += "\u00fc";
    const std::string bytes = with_error(message);
    const auto request = ads::parse_request(bytes);
    REQUIRE_MESSAGE(request.ok(), request.error().text());
    REQUIRE(request->error);
    CHECK(request->error->size() == 4095);
    CHECK(message.starts_with(*request->error));
  }
}
