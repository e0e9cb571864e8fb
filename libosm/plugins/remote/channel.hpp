// Connections to a provider process: a Unix socket whose owner is checked, or mutual TLS.
#pragma once

#include <grpcpp/channel.h>

#include <memory>

#include "osm/remote/provider.hpp"
#include "osm/result.hpp"

namespace osm::inline v1::remote {

// Checks the options without a look at files and sockets. Failure: kInvalidArgument, with the
// option, as the file of providers has it, and the remedy.
Status check_options(const RemoteProviderOptions& options);

// A channel for one connection; it does not connect a second time. Precondition: check_options().
// Failure: kUnavailable (nobody listens on the socket), kPermissionDenied (the process on the
// socket runs as another user), kUnreadableSource (a file). Thread: any. Blocking: on files. A TCP
// connection is made later, by the first call.
Result<std::shared_ptr<grpc::Channel>> open_channel(const RemoteProviderOptions& options);

}  // namespace osm::inline v1::remote
