// Names of platforms become names of Services, or are refused.
#include "osm/values/endpoint.hpp"

#include <doctest/doctest.h>

#include <string>

using namespace osm;

TEST_SUITE("parse_service_name") {
  TEST_CASE("a platform's name becomes the Service's: in lower case") {
    CHECK(*parse_service_name("Shop", "Books-2") == ServiceName{"shop", "books-2"});
  }

  TEST_CASE("a name that no Service can have is refused, without its control characters") {
    for (const std::string name :
         {"", ".", "books.shop", "-books", "books-", "b\u00fccher", "a/b", "books\n", "a_b"})
      CHECK_MESSAGE(!parse_service_name("shop", name).ok(), name);
    CHECK_FALSE(parse_service_name("", "books").ok());
    CHECK_FALSE(parse_service_name("shop", std::string(64, 'a')).ok());
    CHECK(parse_service_name("shop", std::string(63, 'a')).ok());
    const auto long_name = parse_service_name("shop", std::string(100'000, '\n'));
    REQUIRE_FALSE(long_name.ok());
    CHECK(long_name.error().message.size() < 200);
    CHECK(long_name.error().message.find('\n') == std::string::npos);
  }
}
