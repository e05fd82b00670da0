import java.util.Arrays;
import org.eclipse.jetty.server.Server;
import org.eclipse.jetty.server.ServerConnector;
import software.amazon.dynamodb.services.local.main.ServerRunner;
import software.amazon.dynamodb.services.local.server.DynamoDBProxyServer;

/**
 * Starts DynamoDB Local on 127.0.0.1. Its own main class listens on every
 * interface and has no option against that, which would offer an
 * unauthenticated database to the local network.
 */
class LoopbackDynamoDB {
    public static void main(String[] args) throws Exception {
        DynamoDBProxyServer proxy = ServerRunner.createServerFromCommandLineArgs(args);
        var field = DynamoDBProxyServer.class.getDeclaredField("server");
        field.setAccessible(true);
        Arrays.stream(((Server) field.get(proxy)).getConnectors())
            .forEach(c -> ((ServerConnector) c).setHost("127.0.0.1"));
        proxy.start();
        proxy.join();
    }
}
