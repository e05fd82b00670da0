<?php
// The recipe for WordPress of docs/guide.md: a function for a plugin.

/**
 * Hands over one activity, and returns its id at fedpost. $once is the deduplication key: a
 * repeated call sends nothing twice. An error with the code `again` is tried again later, with
 * wp_schedule_single_event; any other says what is wrong with the request.
 *
 * @return string|WP_Error
 */
function fedpost_deliver( array $activity, string $key_id, array $inboxes, string $once ) {
	$answer = wp_remote_post(
		FEDPOST_URL . '/v1/activities',
		array(
			'timeout' => 30,
			'headers' => array(
				'Content-Type'  => 'application/json',
				'Authorization' => 'Bearer ' . FEDPOST_API_TOKEN,
			),
			'body'    => wp_json_encode(
				array(
					'activity'         => $activity,
					'keyId'            => $key_id,
					'recipients'       => $inboxes,
					'deduplicationKey' => $once,
				)
			),
		)
	);
	if ( is_wp_error( $answer ) ) {
		return new WP_Error( 'again', $answer->get_error_message() );
	}
	$status = wp_remote_retrieve_response_code( $answer );
	$body   = json_decode( wp_remote_retrieve_body( $answer ), true );
	if ( 202 === $status ) {
		return $body['id'];
	}
	$again = 409 === $status || 429 === $status || $status >= 500;
	return new WP_Error( $again ? 'again' : 'refused', $body['detail'] ?? "HTTP $status" );
}
