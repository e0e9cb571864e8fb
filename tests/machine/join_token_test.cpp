// The text of a token.
#include <doctest/doctest.h>

#include <string>

#include "osm/machine/join.hpp"

using namespace osm;
using namespace osm::machine;

namespace {

JoinToken token() {
  return {.id = "id",
          .secret = "sesame",
          .join = "192.0.2.1:15129",
          .server_name = "osm-join.osm-system",
          .controller = "192.0.2.1:15128",
          .roots = "-----BEGIN CERTIFICATE-----"};
}

}  // namespace

TEST_SUITE("machine::JoinToken") {
  TEST_CASE("a token reads back as it was written, with white space behind it") {
    const std::string text = encode_join_token(token());
    CHECK(text.find('\n') == std::string::npos);
    const auto read = decode_join_token(text + " \r\n", "the file");
    REQUIRE_MESSAGE(read.ok(), read.error().text());
    CHECK(read->id == token().id);
    CHECK(read->secret == token().secret);
    CHECK(read->join == token().join);
    CHECK(read->server_name == token().server_name);
    CHECK(read->controller == token().controller);
    CHECK(read->roots == token().roots);
  }

  TEST_CASE("a text that is no token is refused without a quotation") {
    JoinToken wrong = token();
    std::string text;
    SUBCASE("no token") { text = "sesame"; }
    SUBCASE("a part is missing") {
      wrong.roots.clear();
      text = encode_join_token(wrong);
    }
    SUBCASE("a server on this machine's disk") {
      wrong.join = "unix:/tmp/sesame";
      text = encode_join_token(wrong);
    }
    const auto read = decode_join_token(text, "the file");
    REQUIRE_FALSE(read.ok());
    CHECK(read.error().code == ErrorCode::kInvalidArgument);
    CHECK(read.error().message ==
          "the file holds no token: it is one line, which `osm vm token` printed");
  }
}
