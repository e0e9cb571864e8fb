// Any bytes survive base64, and other text is refused.
#include "base/base64.hpp"

#include <doctest/doctest.h>

#include <string>
#include <utility>

#include "lib/run.hpp"

using namespace osm;

TEST_SUITE("base64") {
  TEST_CASE("the RFC's examples read as they are written") {
    for (const auto& [bytes, text] :
         {std::pair{"", ""}, std::pair{"f", "Zg=="}, std::pair{"fo", "Zm8="},
          std::pair{"foo", "Zm9v"}, std::pair{"foob", "Zm9vYg=="}, std::pair{"fooba", "Zm9vYmE="},
          std::pair{"foobar", "Zm9vYmFy"}}) {
      CHECK(base64(bytes) == text);
      CHECK(from_base64(text) == bytes);
    }
  }

  TEST_CASE("any bytes come back") {
    auto random = osm::testing::seeded();
    for (int round = 0; round < 200; ++round) {
      std::string bytes(random() % 70, '\0');
      for (char& byte : bytes) byte = static_cast<char>(random());
      CHECK(from_base64(base64(bytes)) == bytes);
    }
  }

  TEST_CASE("invalid base64 gives no result") {
    for (const char* text : {"Z", "Zg", "Zg=", "Zg==\n", "Zg=a",
                             "====", "Zh==", "Zm9=", "Z m8=", "Zm8-", "=Zm8", "Zm8=Zm8="}) {
      CAPTURE(text);
      CHECK_FALSE(from_base64(text).has_value());
    }
  }
}
