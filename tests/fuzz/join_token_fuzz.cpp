// The text of a token, as root of a machine is given it → server, names and roots: a token that is
// taken reads back the same and names a server on the network; a refusal does not quote it.
//
//   input: '0', then the text; or '1', then the JSON that it encodes.
#include "base/base64.hpp"
#include "fuzz/fuzz.hpp"
#include "osm/machine/join.hpp"
#include "osm/net/address.hpp"

using namespace osm;
using namespace osm::fuzz;

namespace {

void run(Choices choices) {
  const bool encoded = choices.flag();
  const std::string content(choices.rest());
  const std::string text = encoded ? base64(content) : content;
  const auto token = machine::decode_join_token(text, "the file");
  if (!token.ok()) {
    require(token.error().message ==
                "the file holds no token: it is one line, which `osm vm token` printed",
            "a refusal quotes no token", token.error().message);
    return;
  }
  for (const std::string& part :
       {token->id, token->secret, token->join, token->server_name, token->controller, token->roots})
    require(!part.empty(), "a token has all its parts", text);
  const auto server = net::parse_address(token->join);
  require(server.ok() && !server->is_unix(), "a token names a server on the network", token->join);
  const auto again = machine::decode_join_token(machine::encode_join_token(*token) + '\n', "again");
  require(again.ok() && again->id == token->id && again->secret == token->secret &&
              again->join == token->join && again->roots == token->roots,
          "a token that is written reads back");
}

const bool kAdded = add("join_token", [](std::string_view input) { run(Choices(input)); });

}  // namespace
