#include "machine/join_token.hpp"

#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>

#include "base/base64.hpp"
#include "base/json.hpp"
#include "osm/net/address.hpp"

namespace osm::inline v1::machine {
namespace {

namespace json = boost::json;

Error no_token(const std::string& source) {
  return {ErrorCode::kInvalidArgument,
          source + " holds no token: it is one line, which `osm vm token` printed"};
}

}  // namespace

std::string encode_join_token(const JoinToken& token) {
  return base64(json::serialize(json::object{{"version", 1},
                                             {"id", token.id},
                                             {"secret", token.secret},
                                             {"join", token.join},
                                             {"server_name", token.server_name},
                                             {"controller", token.controller},
                                             {"roots", token.roots}}));
}

Result<JoinToken> decode_join_token(std::string text, const std::string& source) {
  while (!text.empty() && (text.back() == '\n' || text.back() == '\r' || text.back() == ' '))
    text.pop_back();
  const auto bytes = from_base64(text);
  if (!bytes) return no_token(source);
  const auto fields = parse_json_object(*bytes, "the token");
  if (!fields.ok() || number_at(*fields, "version") != 1) return no_token(source);
  JoinToken token{text_at(*fields, "id"),         text_at(*fields, "secret"),
                  text_at(*fields, "join"),       text_at(*fields, "server_name"),
                  text_at(*fields, "controller"), text_at(*fields, "roots")};
  if (!is_whole(token)) return no_token(source);
  return token;
}

bool is_whole(const JoinToken& token) {
  for (const std::string* part :
       {&token.id, &token.secret, &token.join, &token.server_name, &token.controller, &token.roots})
    if (part->empty()) return false;
  const auto asked = net::parse_address(token.join);
  return asked.ok() && !asked->is_unix();
}

}  // namespace osm::inline v1::machine
