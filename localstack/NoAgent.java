/**
 * The Java agent that LocalStack insists on starting DynamoDB Local with. Its
 * own raises a limit of indexes that fedpost is far from; this one does nothing.
 */
class NoAgent {
    public static void premain(String arguments) {}
}
