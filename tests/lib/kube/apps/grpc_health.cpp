// A gRPC server with the library's own health service, for probes of kind grpc. "down" is a service
// of it that does not serve.
//
//   grpc_health PORT
#include <grpcpp/ext/health_check_service_server_builder_option.h>
#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/grpcpp.h>
#include <grpcpp/health_check_service_interface.h>
#include <signal.h>

#include <iostream>
#include <string>

int main(int argc, char** argv) {
  if (argc != 2) {
    std::cerr << "usage: grpc_health PORT\n";
    return 2;
  }
  sigset_t ends;
  sigemptyset(&ends);
  sigaddset(&ends, SIGTERM);
  sigaddset(&ends, SIGINT);
  pthread_sigmask(SIG_BLOCK, &ends, nullptr);

  grpc::EnableDefaultHealthCheckService(true);
  grpc::CallbackGenericService unimplemented;  // a server needs a service of its own
  grpc::ServerBuilder builder;
  builder.AddListeningPort("0.0.0.0:" + std::string(argv[1]), grpc::InsecureServerCredentials());
  builder.RegisterCallbackGenericService(&unimplemented);
  const auto server = builder.BuildAndStart();
  if (!server) {
    std::cerr << "grpc_health: cannot listen on port " << argv[1] << '\n';
    return 1;
  }
  server->GetHealthCheckService()->SetServingStatus("up", true);
  server->GetHealthCheckService()->SetServingStatus("down", false);
  int signal = 0;
  sigwait(&ends, &signal);
  server->Shutdown();
  return 0;
}
