// A simulated proxy's connection: a gRPC channel of its own over mutual TLS.
#pragma once

#include <memory>
#include <string>

#include <grpcpp/channel.h>
#include <grpcpp/support/byte_buffer.h>

#include "certificates.hpp"

namespace osm::bench {

std::shared_ptr<grpc::Channel> channel_to(const std::string& address,
                                          const Credentials& credentials);
// The bytes of a message.
std::string flatten(const grpc::ByteBuffer& buffer);

}  // namespace osm::bench
