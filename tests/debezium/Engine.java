import io.debezium.engine.ChangeEvent;
import io.debezium.engine.DebeziumEngine;
import io.debezium.engine.format.Json;
import java.io.FileReader;
import java.io.OutputStreamWriter;
import java.io.PrintWriter;
import java.nio.charset.StandardCharsets;
import java.util.Properties;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;

/**
 * Debezium's embedded engine, with the properties of a file: prints each event as a line, its destination, key and value between tabs, until
 * a message whose prefix is the second argument has come. Waits that many seconds, the third.
 */
public class Engine {
    public static void main(String[] words) throws Exception {
        Properties properties = new Properties();
        try (FileReader file = new FileReader(words[0], StandardCharsets.UTF_8)) {
            properties.load(file);
        }
        String last = "\"prefix\":\"" + words[1] + "\"";
        PrintWriter out = new PrintWriter(new OutputStreamWriter(System.out, StandardCharsets.UTF_8), false);
        CountDownLatch ended = new CountDownLatch(1);
        Throwable[] failure = new Throwable[1];
        DebeziumEngine<ChangeEvent<String, String>> engine = DebeziumEngine.create(Json.class).using(properties).notifying(event -> {
            String value = event.value();
            out.println(event.destination() + "\t" + event.key() + "\t" + value);
            if (value != null && value.contains(last)) {
                ended.countDown();
            }
        }).using((success, message, error) -> {
            if (!success) {
                System.err.println(message);
                failure[0] = error == null ? new RuntimeException(message) : error;
            }
            ended.countDown();
        }).build();
        Thread running = new Thread(engine);
        running.start();
        boolean inTime = ended.await(Long.parseLong(words[2]), TimeUnit.SECONDS);
        engine.close();
        running.join();
        out.flush();
        if (failure[0] != null) {
            failure[0].printStackTrace();
        }
        System.exit(failure[0] != null ? 1 : inTime ? 0 : 2);
    }
}
